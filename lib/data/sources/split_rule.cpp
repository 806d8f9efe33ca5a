#include "data/sources/split_rule.h"

#include <fnmatch.h>

#include <cmath>

#include "support/error.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::data {

using artifact::Split;

void SplitConfig::describe(support::FieldVisitor& v) {
  v.field("train", train, "Share of the documents for training.", {.min = 0, .max = 1});
  v.field("validation", validation, "Share for validation while training.", {.min = 0, .max = 1});
  v.field("test", test, "Share for evaluation.", {.min = 0, .max = 1});
  v.field("key", key, "Another key puts other documents into each split; empty: the hash of the text alone.",
          {.neutral = Json("")});
  v.field("validation_files", validation_files,
          "Sources whose documents are the validation split, such as '*validation*'. With files named, shares do not "
          "count and the rest is for training.",
          {.neutral = Json::array()});
  v.field("test_files", test_files, "Sources whose documents are the test split.", {.neutral = Json::array()});
  v.check(std::abs(train + validation + test - 1) < 1e-9, "split.train, split.validation and split.test must sum to 1");
  v.check(key.empty() || !by_file(), "split.key has no meaning with split.validation_files or split.test_files");
}

TextHash hash_of(std::string_view text) {
  support::Sha256 hash;
  hash.update(text);
  return hash.digest();
}

std::uint64_t hash_word(const TextHash& hash, int at) {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | hash[static_cast<std::size_t>(at + i)];
  return value;
}

double fraction(const TextHash& hash, int at) { return static_cast<double>(hash_word(hash, at) >> 11) * 0x1p-53; }

SplitRule::SplitRule(const SplitConfig& config) : config_(config) {
  const auto add = [&](const char* field, const std::vector<std::string>& globs, Split split) {
    for (const std::string& glob : globs) {
      Pattern& pattern = patterns_.emplace_back();
      pattern.field = field;
      pattern.glob = glob;
      pattern.split = split;
    }
  };
  add("split.validation_files", config.validation_files, Split::kValidation);
  add("split.test_files", config.test_files, Split::kTest);
}

Split SplitRule::of(const TextHash& hash, std::string_view source) const {
  if (config_.by_file()) {
    const std::string name(source);
    for (const Pattern& pattern : patterns_) {
      if (::fnmatch(pattern.glob.c_str(), name.c_str(), 0) != 0) continue;
      pattern.matched.store(true, std::memory_order_relaxed);
      return pattern.split;
    }
    return Split::kTrain;
  }
  double at = fraction(hash, 0);
  if (!config_.key.empty()) {
    support::Sha256 keyed;
    keyed.update(config_.key);
    keyed.update("\0", 1);
    keyed.update(hash.data(), hash.size());
    at = fraction(keyed.digest(), 0);
  }
  if (at < config_.train) return Split::kTrain;
  return at < config_.train + config_.validation ? Split::kValidation : Split::kTest;
}

std::string SplitRule::describe() const {
  using support::cat;
  const auto files = [](const std::vector<std::string>& globs) {
    std::vector<std::string> quoted;
    for (const std::string& glob : globs) quoted.push_back(support::quote(glob));
    return quoted.empty() ? std::string("none") : support::join(quoted, " ");
  };
  if (config_.by_file()) {
    return cat("validation files ", files(config_.validation_files), ", test files ", files(config_.test_files),
               ", train the others");
  }
  return cat("train ", support::shortest(config_.train), ", validation ", support::shortest(config_.validation),
             ", test ", support::shortest(config_.test), " by hash",
             config_.key.empty() ? "" : cat(" with key ", support::quote(config_.key)));
}

void SplitRule::require_all_matched() const {
  for (const Pattern& pattern : patterns_) {
    if (pattern.matched.load(std::memory_order_relaxed)) continue;
    throw support::ConfigError(
        support::cat(pattern.field, ": no source that keeps a document matches ", support::quote(pattern.glob)), {},
        "sources are named as in the raw text: relative to the folder or glob, or as on the hub");
  }
}

}  // namespace pe::data
