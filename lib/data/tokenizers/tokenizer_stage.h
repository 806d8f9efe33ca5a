/// @file
/// `pe-make-tokenizer`: a tokenizer as a separate artifact, which any number of `pe-tokenize` take as an input.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "artifact/workspace.h"
#include "data/sources/split_rule.h"
#include "data/tokenizers/tokenizer_choice.h"

namespace pe::data {

struct TokenizerStageConfig : TokenizerConfig {
  SplitConfig split;
  std::int64_t summary_bytes = 16 << 20;
  void describe(support::FieldVisitor& v);
};

/// Reads input `raw`, if there is one, and writes output `tokenizer`. Says of the first `summary_bytes` of the train
/// split how they are encoded: bytes per token, unknown tokens, lengths of documents.
void make_tokenizer_artifact(const TokenizerStageConfig& config, artifact::Workspace& workspace);

/// Writes the tokenizer's own files into a folder: tokenizer.model, or vocab.json and merges.txt. Returns their names.
/// @throws ConfigError when it has no files: bytes and symbols need none
std::string export_tokenizer(const artifact::TokenizerRecord& record, const std::filesystem::path& folder);

}  // namespace pe::data
