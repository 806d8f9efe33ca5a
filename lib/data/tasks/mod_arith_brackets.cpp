// Deterministic context-free: arithmetic with brackets modulo five.
#include "data/tasks/kit.h"

namespace pe::data {

namespace {

enum : std::int32_t { kPlus = 5, kMinus, kTimes, kOpen, kClose };

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

/// The value of the expression that begins at `at`.
std::int32_t value_of(const Symbols& input, std::size_t& at) {
  if (input[at] < 5) return input[at++];
  if (input[at] == kMinus) {
    ++at;
    return (5 - input[at++]) % 5;
  }
  ++at;   // (
  std::int32_t value = value_of(input, at);
  if (input[at] != kClose) {
    const std::int32_t op = input[at++];
    const std::int32_t other = value_of(input, at);
    value = op == kPlus ? value + other : op == kMinus ? value - other + 5 : value * other;
  }
  ++at;   // )
  return value % 5;
}

class BracketArithmetic final : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1", "2", "3", "4", "+", "-", "*", "(", ")"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 5); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input;
    expression(random, n, 3, input);
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    std::size_t at = 0;
    return {value_of(input, at)};
  }
};

}  // namespace

TaskGenerator mod_arith_brackets_task() {
  return task<BracketArithmetic>({.name = "mod_arith_brackets",
                                .summary = "A bracketed expression of digits 0 to 4; its value modulo 5.",
                                .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
                                .length = "symbols of input",
                                .train = {1, 40},
                                .test = {41, 500}});
}

}  // namespace pe::data
