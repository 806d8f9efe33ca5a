/// @file
/// A tokenizer as artifacts hold it: alone (kind `tokenizer`, one file), and in `dataset.h5` of token shards, so that
/// ids always have a meaning (doc/format-tokenizer.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "artifact/h5.h"
#include "artifact/workspace.h"

namespace pe::artifact {

/// All about the tokenizer that a consumer needs.
struct TokenizerRecord {
  std::string kind;   ///< "sentencepiece", "byte-level-bpe", "bytes" or "symbols"
  std::string model;  ///< serialized model; empty for bytes
  std::int64_t vocabulary = 0;
  std::int64_t bos_id = -1, eos_id = -1, pad_id = -1, unk_id = -1;  ///< -1: none
  bool bos_before_documents = false;
  bool dummy_prefix = false;               ///< a space is put before each document, and counts no byte there
  std::vector<std::uint16_t> token_bytes;  ///< [V] bytes of text that an id stands for; control and unknown ids 0.
  std::string content_hash;                ///< Hash of pieces, types, scores and normaliser.
  std::string library;                     ///< "sentencepiece 0.1.97", of the program that encoded.
  /// Names the tokenizer in checkpoints: models and data that differ in it do not fit.
  std::string digest() const;
};

/// Group `/tokenizer` and `/pe/made_by_library` of a file whose header is written.
void write_tokenizer_group(h5::Group& root, const TokenizerRecord& record);
/// @throws ArtifactError when a part is missing, cannot be, or does not fit the digest.
TokenizerRecord read_tokenizer_group(const h5::File& file);

void write_tokenizer(const std::filesystem::path& path, const Recipe& recipe, const TokenizerRecord& record);
inline constexpr int kTokenizerFormat = 1;
/// The tokenizer in a file of a kind, in its format `newest` or an older one. @throws ArtifactError
TokenizerRecord read_tokenizer(const std::filesystem::path& path, Kind kind = Kind::kTokenizer,
                               int newest = kTokenizerFormat);

}  // namespace pe::artifact
