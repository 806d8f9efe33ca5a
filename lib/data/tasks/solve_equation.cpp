// Deterministic context-free: the digit that x stands for.
#include "data/tasks/bracket_arithmetic.h"

namespace pe::data {

namespace {

class SolveEquation final : public BracketArithmetic {
 public:
  SolveEquation() : BracketArithmetic({"+", "-"}) {}
  std::vector<std::string> own_symbols() const override {
    return BracketArithmetic::own_symbols() + std::vector<std::string>{"x", "="};
  }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    if (n < 3) return Symbols(static_cast<std::size_t>(n), 0);
    Symbols input;
    const std::int32_t value = expression(random, n - 2, input);
    std::size_t at = random.below(input.size());
    while (!is_digit(input[at])) at = (at + 1) % input.size();
    input[at] = unknown();
    append(input, {unknown() + 1, value});
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    if (input.size() < 3) return {0};
    // x occurs once under + and - alone, so exactly one digit solves the equation.
    for (std::int32_t x = 0; x < 5; ++x) {
      if (value_of(input, x) == input.back()) return {x};
    }
    assert(false);
    return {0};
  }

 private:
  /// The symbol behind the brackets.
  std::int32_t unknown() const { return static_cast<std::int32_t>(BracketArithmetic::own_symbols().size()); }
};

}  // namespace

TaskGenerator solve_equation_task() {
  return task<SolveEquation>(
      {.name = "solve_equation",
       .summary = "A bracketed expression of + and - with one digit hidden by x, = value modulo 5; the digit.",
       .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
       .length = "symbols of input",
       .train = {1, 40},
       .test = {41, 500}});
}

}  // namespace pe::data
