// Deterministic context-free: the digit that x stands for.
#include "data/tasks/kit.h"

namespace pe::data {

namespace {

enum : std::int32_t { kPlus = 5, kMinus, kOpen, kClose, kX, kEquals };

/// An expression of `length` symbols over `operators` of + - *, and its value modulo five.
std::int32_t expression(support::Xoshiro& random, std::int64_t length, std::int64_t operators, Symbols& out) {
  if (length == 1) {
    out.push_back(draw(random, 5));
    return out.back();
  }
  if (length == 2) {
    out.push_back(kMinus);
    return (5 - expression(random, 1, operators, out)) % 5;
  }
  if (length <= 4) {
    out.push_back(kOpen);
    const std::int32_t value = expression(random, length - 2, operators, out);
    out.push_back(kClose);
    return value;
  }
  const std::int64_t left = draw_between(random, 1, length - 4);
  out.push_back(kOpen);
  const std::int32_t a = expression(random, left, operators, out);
  const std::int32_t op = kPlus + draw(random, operators);
  out.push_back(op);
  const std::int32_t b = expression(random, length - 3 - left, operators, out);
  out.push_back(kClose);
  return op == kPlus ? (a + b) % 5 : op == kMinus ? (a - b + 5) % 5 : a * b % 5;
}

std::int32_t value_of(const Symbols& input, std::size_t& at, std::int32_t x) {
  if (input[at] < 5 || input[at] == kX) {
    const std::int32_t symbol = input[at++];
    return symbol == kX ? x : symbol;
  }
  if (input[at] == kMinus) {
    ++at;
    return (5 - value_of(input, at, x)) % 5;
  }
  ++at;
  std::int32_t value = value_of(input, at, x);
  if (input[at] != kClose) {
    const std::int32_t op = input[at++];
    const std::int32_t other = value_of(input, at, x);
    value = op == kPlus ? value + other : value - other + 5;
  }
  ++at;
  return value % 5;
}

class SolveEquation final : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1", "2", "3", "4", "+", "-", "(", ")", "x", "="}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 5); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    if (n < 3) return Symbols(static_cast<std::size_t>(n), 0);
    Symbols input;
    const std::int32_t value = expression(random, n - 2, 2, input);
    std::size_t at = random.below(input.size());
    while (input[at] >= 5) at = (at + 1) % input.size();
    input[at] = kX;
    append(input, {kEquals, value});
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    if (input.size() < 3) return {0};
    // x occurs once under + and - alone, so exactly one digit solves the equation.
    for (std::int32_t x = 0; x < 5; ++x) {
      std::size_t at = 0;
      if (value_of(input, at, x) == input.back()) return {x};
    }
    assert(false);
    return {0};
  }
};

}  // namespace

TaskGenerator solve_equation_task() {
  return task<SolveEquation>({.name = "solve_equation",
                            .summary = "A bracketed expression of + and - with one digit hidden by x, = value modulo 5; the digit.",
                            .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
                            .length = "symbols of input",
                            .train = {1, 40},
                            .test = {41, 500}});
}

}  // namespace pe::data
