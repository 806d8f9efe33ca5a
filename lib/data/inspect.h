/// @file
/// Raw text and token shards for people: what `pe-data` prints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace pe::data {

struct InspectOptions {
  std::int64_t documents = 3;       ///< how many are shown, from the start
  std::int64_t characters = 400;    ///< of each, at most
  std::string split = "train";      ///< of token shards
};

/// Totals, a histogram of document lengths, and the first documents; of token shards decoded, with their ids. `path` is the
/// artifact's folder, its manifest or one of its members. @throws ArtifactError when it is neither kind.
std::string inspect(const std::filesystem::path& path, const InspectOptions& options);

}  // namespace pe::data
