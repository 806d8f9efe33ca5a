/// @file
/// Arithmetic in texts, such as the count of an encoding's parameters or the cost of a stage. It has numbers, names,
/// brackets, + - * /, and `a | b`, which is b if a is 0.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

namespace pe::support {

/// The value of a name (letters, digits, '_' and '.'); nothing where it has none.
using ValueOf = std::function<std::optional<double>(std::string_view name)>;

/// The value of `layers*(33*heads + 66)`. Nothing when a name has no value, or the text is no expression.
std::optional<double> evaluate_arithmetic(std::string_view expression, const ValueOf& value_of);

}  // namespace pe::support
