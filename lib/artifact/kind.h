/// @file
/// The kinds of artifact that stages exchange. A kind fixes the layout of a file, or of the members of a collection.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace pe::artifact {

enum class Kind { kRawText, kTokenizer, kTokenShards, kCheckpoint, kMetrics, kEvalTable, kReport };

std::string_view kind_name(Kind kind);  ///< as files and pipelines spell it: "raw-text", "tokenizer", "token-shards", …
std::optional<Kind> find_kind(std::string_view name);
std::vector<Kind> all_kinds();

/// True when the artifact is a folder of members with a manifest (raw text, token shards, report) and not one file.
bool is_collection(Kind kind);

}  // namespace pe::artifact
