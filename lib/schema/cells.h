/// @file
/// Reading tables whose columns only a file names: claims. Everything else reads structs (row.h).
#pragma once

#include <string>
#include <string_view>

#include "schema/row.h"

namespace pe::schema {

/// Cells by name, whatever their type: a column that is not there is missing in every row.
class CellReader {
 public:
  explicit CellReader(const artifact::Table& table) : table_(table) {}

  double real(std::size_t row, std::string_view name) const {
    double value = kMissing;
    detail::from_cell(cell(row, name), value);
    return value;
  }
  std::string text(std::size_t row, std::string_view name) const {
    std::string value;
    detail::from_cell(cell(row, name), value);
    return value;
  }
  std::string status(std::size_t row) const { return text(row, "status"); }

 private:
  artifact::Cell cell(std::size_t row, std::string_view name) const {
    const auto column = table_.find_column(name);
    return column ? table_.cell(row, *column) : artifact::Cell();
  }
  const artifact::Table& table_;
};

}  // namespace pe::schema
