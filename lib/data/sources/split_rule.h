/// @file
/// Which split a document belongs to: by a keyed hash of its text, or by the name of the file that it came from.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/token_shards.h"
#include "support/config.h"

namespace pe::data {

struct SplitConfig {
  double train = 0.9;
  double validation = 0.03;
  double test = 0.07;
  std::string key;                            ///< another key draws other documents; empty: the hash of the text alone
  std::vector<std::string> validation_files;  ///< globs over source names; '*' crosses '/'
  std::vector<std::string> test_files;
  void describe(support::FieldVisitor& v);
  bool by_file() const { return !validation_files.empty() || !test_files.empty(); }
};

using TextHash = std::array<std::uint8_t, 32>;

TextHash hash_of(std::string_view text);  ///< SHA-256

/// Bytes [at, at + 8) of the hash, big-endian. The split takes the first eight, the tokenizer's training the next;
/// samples of documents take those from 16 on.
std::uint64_t hash_word(const TextHash& hash, int at);
/// The same as a number in [0, 1).
double fraction(const TextHash& hash, int at);

/// Thread-safe.
class SplitRule {
 public:
  explicit SplitRule(const SplitConfig& config);
  /// `hash` is SHA-256 of the text, `source` the name of where it came from.
  artifact::Split of(const TextHash& hash, std::string_view source) const;
  /// Share of the train split in the documents, as far as the config alone determines it.
  double train_share() const { return config_.by_file() ? 1.0 : config_.train; }
  /// In words, with shares, key or patterns: "train 0.9, validation 0.03, test 0.07 by hash".
  std::string describe() const;
  /// @throws ConfigError that names the first pattern which no source that was asked for matches.
  void require_all_matched() const;

 private:
  struct Pattern {
    const char* field;
    std::string glob;
    artifact::Split split;
    mutable std::atomic<bool> matched = false;
  };
  SplitConfig config_;
  std::deque<Pattern> patterns_;  // in the order in which they are tried
};

}  // namespace pe::data
