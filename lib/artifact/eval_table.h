/// @file
/// Results of an evaluation (kind `eval-table`): several named tables in one file. Reports and comparisons are made
/// from these only. Which tables there are, and their columns, is in schema/tables.h; a trial or a document is one row.
#pragma once

#include "artifact/table.h"

namespace pe::artifact {

inline void write_eval_tables(const std::filesystem::path& path, const Recipe& recipe, const Tables& tables) {
  write_tables(path, Kind::kEvalTable, recipe, tables);
}
inline Tables read_eval_tables(const std::filesystem::path& path) { return read_tables(path, Kind::kEvalTable); }
inline Tables read_eval_tables(const h5::File& file) { return read_tables(file, Kind::kEvalTable); }

}  // namespace pe::artifact
