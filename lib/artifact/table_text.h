/// @file
/// Tables as text for people: aligned columns in lines of limited width.
#pragma once

#include <cstddef>
#include <string>

#include "artifact/table.h"

namespace pe::artifact {

struct TableLayout {
  std::size_t rows = 40;     ///< most rows; of a longer table the first and the last
  std::size_t columns = 80;  ///< width of a line of the terminal
};

/// Name and number of rows, values that all rows share, and the columns that differ. Columns that do not fit follow
/// below, behind the columns that identify a row. Long texts follow the rows (`passages_text`).
std::string table_text(const Table& table, const TableLayout& layout = {});

/// All tables, lm_summary first.
std::string tables_text(const Tables& tables, const TableLayout& layout = {});

/// Texts that are too long for a column, such as prompts and texts of the table `samples`: a paragraph each, without
/// control characters. Empty when the table has none.
std::string passages_text(const Table& table, const TableLayout& layout = {});

}  // namespace pe::artifact
