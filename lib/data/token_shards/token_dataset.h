/// @file
/// Token shards, opened for training and evaluation. Tokens are mapped, so that HDF5 is called while opening and never
/// again; all reading is const and thread-safe. Resident memory grows with the pages touched: that is page cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "artifact/token_shards.h"

namespace pe::data {

using artifact::Split;

class TokenDataset {
 public:
  /// `folder` is the artifact. @throws ArtifactError when a part is missing, damaged, or does not fit the others.
  explicit TokenDataset(const std::filesystem::path& folder);
  ~TokenDataset();
  TokenDataset(TokenDataset&&) noexcept;

  const artifact::TokenizerRecord& tokenizer() const;
  std::int64_t vocabulary() const { return tokenizer().vocabulary; }
  const std::string& tokenizer_digest() const;
  const std::string& content_digest() const;  ///< of the whole artifact, from its manifest
  const artifact::DatasetTotals& totals() const;
  const artifact::SplitRecord& splits() const;  ///< empty for data of tasks

  std::uint64_t tokens(Split split) const;  ///< in all shards of the split, which read as one stream
  std::uint64_t documents(Split split) const;

  /// Tokens [first, first + out.size()) of the split's stream, across shard borders. @throws Error (bug) past the end.
  void read(Split split, std::uint64_t first, std::span<std::int64_t> out) const;
  void read(Split split, std::uint64_t first, std::span<std::int32_t> out) const;

  /// The target of a model after each token, for data of tasks; -1 without a target.
  bool has_labels() const;
  /// Labels [first, first + out.size()). @throws Error (bug) past the end, or where there are none.
  void read_labels(Split split, std::uint64_t first, std::span<std::int64_t> out) const;
  /// The only length at which windows are whole examples; 0: text, any length.
  std::uint64_t window_tokens() const;

  /// Windows of T+1 tokens with stride T: window w is tokens [w·T, w·T + T], so each token but the first is a target
  /// once. There are ⌊(tokens − 1) / T⌋.
  std::uint64_t windows(Split split, std::int64_t length) const;
  void window(Split split, std::int64_t length, std::uint64_t w, std::span<std::int64_t> out) const;
  /// Window w is read after the one that is read now: its memory is asked for meanwhile.
  void expect_window(Split split, std::int64_t length, std::uint64_t w) const;

  struct Document {
    std::uint64_t first = 0;  ///< of its tokens in the split's stream; that is its BOS if documents begin with one
    std::uint64_t tokens = 0;
    std::uint64_t bytes = 0;  ///< of its text
    std::uint64_t index = 0;  ///< its number in the raw text
  };
  Document document(Split split, std::uint64_t number) const;

  /// Bytes of text that tokens[first..] stand for (bits per byte divides by this). A space that the tokenizer put
  /// before a document counts nothing; it is recognised by the BOS before it, or by `starts_document` at tokens[0].
  std::uint64_t text_bytes(std::span<const std::int64_t> tokens, std::size_t first, bool starts_document = false) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pe::data
