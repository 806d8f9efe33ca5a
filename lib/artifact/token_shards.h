/// @file
/// Token ids of documents (kind `token-shards`): members `train-00000.h5`, `validation-00000.h5`, `test-00000.h5`, …
/// and `dataset.h5`, which holds the tokenizer and the totals (doc/format-token-shards.md). Reading is in
/// data/token_shards/token_dataset.h.
///
/// A shard has /tokens uint16 or uint32 [n] (contiguous, page-aligned), /doc_offsets uint64 [d + 1],
/// /doc_bytes uint32 [d] (bytes of text), /doc_index uint64 [d] (number in the raw text). Attributes: split, shard,
/// vocabulary, tokenizer_digest. Shards of tasks also have /labels int32 [n]: target after each token; -1: no question.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "artifact/collection.h"
#include "artifact/document_sample.h"
#include "artifact/split.h"
#include "artifact/tokenizer_record.h"

namespace pe::artifact {

struct SplitTotals {
  std::uint64_t documents = 0, tokens = 0, bytes = 0;
};

struct DatasetTotals {
  std::array<SplitTotals, 3> splits;  ///< by Split
  std::uint64_t read = 0;             ///< documents of the raw text
  std::uint64_t duplicates = 0;       ///< exact ones, dropped
  std::uint64_t empty = 0;
  std::uint64_t invalid_utf8 = 0;  ///< dropped or repaired, by `utf8`
  std::uint64_t too_short = 0;
  std::uint64_t unknown_tokens = 0;
};

/// How documents were put into splits, and a sample of each. Data of tasks have neither.
struct SplitRecord {
  std::string rule;  ///< "train 0.9, validation 0.03, test 0.07 by hash": for people, and equal or not
  std::array<DocumentSample, 3> documents;  ///< by Split
};

/// Writes the shards of all splits; documents come in order, each to its split.
class TokenShardsWriter {
 public:
  TokenShardsWriter(std::filesystem::path folder, const Recipe& recipe, const TokenizerRecord& tokenizer,
                    std::uint64_t shard_tokens);
  ~TokenShardsWriter();
  /// @param labels as many as ids, below the vocabulary, -1 where nothing is asked; for every document or for none.
  void add(Split split, const std::int32_t* ids, std::size_t count, std::uint32_t text_bytes, std::uint64_t index,
           const std::int32_t* labels = nullptr);
  /// Documents are windows of so many tokens each, to be read at that length only.
  void set_window(std::uint64_t tokens) { window_ = tokens; }
  void set_splits(SplitRecord splits) { splits_ = std::move(splits); }
  /// `totals.splits` is filled in.
  Manifest finish(DatasetTotals& totals);

 private:
  struct OpenShard;
  void flush(Split split);
  Recipe recipe_;
  CollectionWriter collection_;
  TokenizerRecord tokenizer_;
  std::uint64_t shard_tokens_;
  std::uint64_t window_ = 0;
  SplitRecord splits_;
  std::array<std::unique_ptr<OpenShard>, 3> open_;
  std::array<SplitTotals, 3> totals_;
};

/// The tokenizer that the shards were made with.
TokenizerRecord read_tokenizer_record(const std::filesystem::path& dataset_file);
/// Tokens of a window, where documents are windows; 0 for text.
std::uint64_t read_window(const std::filesystem::path& dataset_file);
/// Empty where the data has none.
SplitRecord read_split_record(const std::filesystem::path& dataset_file);
DatasetTotals read_dataset_totals(const std::filesystem::path& dataset_file);

}  // namespace pe::artifact
