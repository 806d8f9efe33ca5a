/// @file
/// Raw text, tokenizers and token shards for people: the output of `pe-data`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "artifact/tokenizer_record.h"

namespace pe::data {

struct InspectOptions {
  std::int64_t documents = 3;     ///< how many are shown, from the start
  std::int64_t characters = 400;  ///< of each, at most
  std::string split = "train";    ///< of token shards
};

/// Totals, a histogram of document lengths, and the first documents; of token shards decoded, with their ids. `path` is
/// the artifact's folder, its manifest or one of its members; of a tokenizer its file. @throws ArtifactError when it is
/// none of these.
std::string inspect(const std::filesystem::path& path, const InspectOptions& options);

/// The tokenizer of a tokenizer artifact or of token shards. @throws ArtifactError
artifact::TokenizerRecord tokenizer_of(const std::filesystem::path& path);

}  // namespace pe::data
