/// @file
/// Raw text, tokenizers, token shards and tables for people: the output of `pe-data`.
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
  std::string table = {};         ///< the only one that is shown, of an eval-table or metrics; empty: all
  std::size_t rows = 40;          ///< of each table, at most
};

/// Of raw text and token shards totals, a histogram of document lengths, and the first documents, decoded and with
/// their ids. Of an eval-table and metrics the tables, lm_summary first. `path` is the artifact's folder, its manifest
/// or one of its members, or an artifact that is a file. @throws ArtifactError when it is none of these.
std::string inspect(const std::filesystem::path& path, const InspectOptions& options);

/// The tokenizer of a tokenizer artifact or of token shards. @throws ArtifactError
artifact::TokenizerRecord tokenizer_of(const std::filesystem::path& path);

}  // namespace pe::data
