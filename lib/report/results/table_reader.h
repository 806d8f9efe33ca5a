/// @file
/// Reading tables of artifacts row by row.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "artifact/table.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::report {

/// Cells by name, whatever their type: a column that is not there is missing in every row.
class TableReader {
 public:
  TableReader(const artifact::Table& table, std::string where) : table_(table), where_(std::move(where)) {}

  double real(std::size_t row, std::string_view name, bool required = false) const {
    const auto column = find(name, required);
    if (!column || table_.missing(row, *column)) return std::numeric_limits<double>::quiet_NaN();
    const artifact::Cell cell = table_.cell(row, *column);
    if (const auto* whole = std::get_if<std::int64_t>(&cell.value())) return static_cast<double>(*whole);
    if (const auto* real = std::get_if<double>(&cell.value())) return *real;
    if (const auto* text = std::get_if<std::string>(&cell.value())) return support::parse_real(*text).value_or(std::numeric_limits<double>::quiet_NaN());
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::int64_t whole(std::size_t row, std::string_view name) const {
    const double value = real(row, name, true);
    if (!std::isfinite(value)) throw support::ArtifactError(support::cat(where_, ": row ", row, " has no ", name));
    return std::llround(value);
  }
  std::string text(std::size_t row, std::string_view name) const {
    const auto column = table_.find_column(name);
    if (!column || table_.missing(row, *column)) return "";
    const artifact::Cell cell = table_.cell(row, *column);
    if (const auto* whole = std::get_if<std::int64_t>(&cell.value())) return std::to_string(*whole);
    if (const auto* real = std::get_if<double>(&cell.value())) return support::shortest(*real);
    if (const auto* text = std::get_if<std::string>(&cell.value())) return *text;
    return "";
  }

 private:
  std::optional<std::size_t> find(std::string_view name, bool required) const {
    if (required) return table_.column(name);  // throws with the nearest name
    return table_.find_column(name);
  }
  const artifact::Table& table_;
  std::string where_;
};

}  // namespace pe::report
