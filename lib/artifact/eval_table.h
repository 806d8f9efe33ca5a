/// @file
/// What evaluation found (kind `eval-table`): several named tables in one file, with fixed columns per name. Reports and
/// comparisons are made from these only. Rows are independent of order; a trial or a document is one row.
#pragma once

#include "artifact/table.h"

namespace pe::artifact {

/// The columns of a table by its name: `lm_doc`, `lm_summary`, `lm_position`, `retrieval_trial`, `copy_trial`, `cost`,
/// `stability`; empty when the name is not one of these. Columns beyond these may be added after them.
std::vector<ColumnSpec> eval_columns(std::string_view table);
std::vector<std::string> eval_table_names();

/// `Table(name, eval_columns(name))` plus further columns. @throws Error (bug) for an unknown name.
Table make_eval_table(const std::string& name, const std::vector<ColumnSpec>& further = {});

inline void write_eval_tables(const std::filesystem::path& path, const Recipe& recipe, const Tables& tables) {
  write_tables(path, Kind::kEvalTable, recipe, tables);
}
inline Tables read_eval_tables(const std::filesystem::path& path) { return read_tables(path, Kind::kEvalTable); }

}  // namespace pe::artifact
