/// @file
/// Conditions on a row's other columns, such as `int_score >= 3`: a row is kept when all of them hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pe::data {

/// A value of a row: nothing (null, or no such key), a truth value, a number, a text.
using Scalar = std::variant<std::monostate, bool, std::int64_t, double, std::string>;
std::string_view scalar_type(const Scalar& value);  ///< "null", "a truth value", "a number", "text"

struct Condition {
  enum class Op { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };
  std::string column;
  Op op = Op::kEqual;
  Scalar value;
  std::string text;  ///< as it was written

  /// Numbers compare as numbers, texts bytewise; a null holds nowhere. False and `comparable` false when the types
  /// differ.
  bool holds(const Scalar& found, bool& comparable) const;
};

class RowFilter {
 public:
  RowFilter() = default;
  /// Each "<column> <op> <value>", op one of == != < <= > >=; the value a number, true, false, or text, bare or quoted.
  /// @throws ConfigError
  explicit RowFilter(const std::vector<std::string>& conditions);
  const std::vector<Condition>& conditions() const { return conditions_; }
  bool empty() const { return conditions_.empty(); }

 private:
  std::vector<Condition> conditions_;
};

}  // namespace pe::data
