/// @file
/// Formulas of encodings in configs, such as "-exp(a[h])*log1p(d)": parsed with care, evaluated on tensors, so that
/// autograd trains their parameters. Slow and exact: float64, an operation at a time.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

/// Names that a formula may use, with their indices: {"d", {}}, {"a", {"l", "h"}}.
using FormulaNames = std::map<std::string, std::vector<std::string>>;

/// Numbers, names, a[h], + - * / ^, brackets, and functions of one argument (exp, log, log1p, expm1, sqrt, abs, sin,
/// cos, tanh, sigmoid, softplus, relu, floor, step) or two (min, max). `^` binds to the right and before a sign: -d^2
/// is -(d^2).
class Expression {
 public:
  static constexpr std::size_t kLongest = 1000;  ///< characters
  static constexpr int kDeepest = 64;            ///< brackets within brackets

  /// @param where names the formula in messages: "bias".
  /// @throws ConfigError with the column, the excerpt, and the nearest name for one that is unknown
  Expression(const std::string& text, const FormulaNames& names, const std::string& where);

  /// @param values float64 tensors that broadcast against each other, one for each of `names()`.
  Tensor evaluate(const std::map<std::string, Tensor>& values) const;
  /// The names that the formula uses.
  const std::set<std::string>& names() const { return names_; }

  struct Node;

 private:
  std::set<std::string> names_;  // before the root, whose parser fills it
  std::shared_ptr<const Node> root_;
};

/// A letter, then letters, digits and '_'; no function, no constant.
bool is_formula_name(const std::string& text);

}  // namespace pe::encodings
