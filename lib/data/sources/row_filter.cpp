#include "data/sources/row_filter.h"

#include <compare>
#include <utility>

#include "support/error.h"
#include "support/text.h"

namespace pe::data {

using support::cat;
using support::quote;

namespace {

constexpr std::pair<std::string_view, Condition::Op> kOps[] = {
    // The longer ones first, as they begin like the shorter ones.
    {"==", Condition::Op::kEqual},        {"!=", Condition::Op::kNotEqual}, {"<=", Condition::Op::kLessEqual},
    {">=", Condition::Op::kGreaterEqual}, {"<", Condition::Op::kLess},      {">", Condition::Op::kGreater}};

Scalar read_value(std::string_view text) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front()) {
    return std::string(text.substr(1, text.size() - 2));
  }
  if (text == "true" || text == "false") return text == "true";
  if (const auto whole = support::parse_integer(text)) return *whole;
  if (const auto real = support::parse_real(text)) return *real;
  return std::string(text);
}

Condition read_condition(const std::string& text) {
  const auto fail = [&](const std::string& why) {
    return support::ConfigError(cat("filter ", quote(text), ": ", why), {},
                                "example: 'int_score >= 3'; == != < <= > >= compare");
  };
  const std::size_t at = text.find_first_of("=!<>");
  if (at == std::string::npos) throw fail("there is no comparison");
  for (const auto& [sign, op] : kOps) {
    if (text.compare(at, sign.size(), sign) != 0) continue;
    const std::string_view column = support::trim(std::string_view(text).substr(0, at));
    const std::string_view value = support::trim(std::string_view(text).substr(at + sign.size()));
    if (column.empty()) throw fail("no column is named");
    if (value.empty()) throw fail("there is nothing to compare with");
    return {std::string(column), op, read_value(value), text};
  }
  throw fail(cat("unknown comparison ", quote(text.substr(at, 1))));
}

bool decide(Condition::Op op, std::partial_ordering order) {
  switch (op) {
    case Condition::Op::kEqual:
      return order == 0;
    case Condition::Op::kNotEqual:
      return order != 0;
    case Condition::Op::kLess:
      return order < 0;
    case Condition::Op::kLessEqual:
      return order <= 0;
    case Condition::Op::kGreater:
      return order > 0;
    case Condition::Op::kGreaterEqual:
      return order >= 0;
  }
  return false;
}

bool is_number(const Scalar& value) {
  return std::holds_alternative<std::int64_t>(value) || std::holds_alternative<double>(value);
}
double real(const Scalar& value) {
  const auto* whole = std::get_if<std::int64_t>(&value);
  return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(value);
}

}  // namespace

std::string_view scalar_type(const Scalar& value) {
  if (std::holds_alternative<std::monostate>(value)) return "null";
  if (std::holds_alternative<bool>(value)) return "a truth value";
  return is_number(value) ? "a number" : "text";
}

bool Condition::holds(const Scalar& found, bool& comparable) const {
  comparable = true;
  if (std::holds_alternative<std::monostate>(found)) return false;
  if (is_number(found) && is_number(value)) {
    const auto* a = std::get_if<std::int64_t>(&found);
    const auto* b = std::get_if<std::int64_t>(&value);
    return decide(op, a != nullptr && b != nullptr ? std::partial_ordering(*a <=> *b) : real(found) <=> real(value));
  }
  comparable = found.index() == value.index();
  if (!comparable) return false;
  if (const auto* text = std::get_if<std::string>(&found)) return decide(op, *text <=> std::get<std::string>(value));
  return decide(op, std::get<bool>(found) <=> std::get<bool>(value));
}

RowFilter::RowFilter(const std::vector<std::string>& conditions) {
  for (const std::string& text : conditions) conditions_.push_back(read_condition(text));
}

}  // namespace pe::data
