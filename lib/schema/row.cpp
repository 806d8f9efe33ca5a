#include "schema/row.h"

#include <cmath>

#include "support/error.h"
#include "support/text.h"

namespace pe::schema::detail {

artifact::Cell to_cell(double value) { return std::isnan(value) ? artifact::Cell() : artifact::Cell(value); }

void from_cell(const artifact::Cell& cell, double& value) {
  value = kMissing;
  if (const auto* whole = std::get_if<std::int64_t>(&cell.value())) value = static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&cell.value())) value = *real;
  if (const auto* text = std::get_if<std::string>(&cell.value())) value = support::parse_real(*text).value_or(kMissing);
}

void from_cell(const artifact::Cell& cell, std::string& value) {
  value.clear();
  if (const auto* whole = std::get_if<std::int64_t>(&cell.value())) value = std::to_string(*whole);
  if (const auto* real = std::get_if<double>(&cell.value())) value = support::shortest(*real);
  if (const auto* text = std::get_if<std::string>(&cell.value())) value = *text;
}

void from_cell(const artifact::Cell& cell, std::optional<std::int64_t>& value) {
  double real = kMissing;
  from_cell(cell, real);
  value = std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(&cell.value()))
    value = *whole;
  else if (std::isfinite(real))
    value = std::llround(real);
}

void from_cell(const artifact::Cell& cell, std::optional<std::string>& value) {
  value = std::nullopt;
  if (!cell.missing()) from_cell(cell, value.emplace());
}

void from_cell(const artifact::Cell& cell, std::int64_t& value) {
  std::optional<std::int64_t> found;
  from_cell(cell, found);
  value = found.value_or(0);
}

void no_integer(const std::string& where, std::size_t row, const std::string& name) {
  throw support::ArtifactError(support::cat(where, ": row ", row, " has no ", name));
}

}  // namespace pe::schema::detail
