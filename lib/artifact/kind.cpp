#include "artifact/kind.h"

namespace pe::artifact {

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kRawText:
      return "raw-text";
    case Kind::kTokenizer:
      return "tokenizer";
    case Kind::kTokenShards:
      return "token-shards";
    case Kind::kCheckpoint:
      return "checkpoint";
    case Kind::kMetrics:
      return "metrics";
    case Kind::kEvalTable:
      return "eval-table";
    case Kind::kReport:
      return "report";
  }
  return "?";
}

std::optional<Kind> find_kind(std::string_view name) {
  for (const Kind kind : all_kinds()) {
    if (kind_name(kind) == name) return kind;
  }
  return std::nullopt;
}

std::vector<Kind> all_kinds() {
  return {Kind::kRawText, Kind::kTokenizer, Kind::kTokenShards, Kind::kCheckpoint,
          Kind::kMetrics, Kind::kEvalTable, Kind::kReport};
}

bool is_collection(Kind kind) { return kind == Kind::kRawText || kind == Kind::kTokenShards || kind == Kind::kReport; }

}  // namespace pe::artifact
