/// @file
/// Fully bracketed expressions of the digits 0 to 4, and their values modulo five.
#pragma once

#include "data/tasks/task_base.h"

namespace pe::data {

class BracketArithmetic : public ChomskyTask {
 public:
  /// Digits, operators, brackets.
  std::vector<std::string> own_symbols() const override;
  std::vector<std::int32_t> answers() const override { return ids_of(0, kModulus); }

 protected:
  /// @param operators the first two or all of + - *
  explicit BracketArithmetic(std::vector<std::string> operators) : operators_(std::move(operators)) {}

  static bool is_digit(std::int32_t symbol) { return symbol < kModulus; }
  /// Appends an expression of `length` symbols; returns its value.
  std::int32_t expression(support::Xoshiro& random, std::int64_t length, Symbols& out) const;
  /// The value of the expression that `input` begins with. @param x value of the symbol after the brackets
  std::int32_t value_of(const Symbols& input, std::int32_t x = 0) const;

 private:
  static constexpr std::int32_t kModulus = 5;
  std::int32_t open() const { return kModulus + static_cast<std::int32_t>(operators_.size()); }
  std::int32_t close() const { return open() + 1; }
  std::int32_t value_from(const Symbols& input, std::size_t& at, std::int32_t x) const;

  std::vector<std::string> operators_;
};

}  // namespace pe::data
