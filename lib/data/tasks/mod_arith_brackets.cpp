// Deterministic context-free: arithmetic with brackets modulo five.
#include "data/tasks/bracket_arithmetic.h"

namespace pe::data {

namespace {

class BracketValue final : public BracketArithmetic {
 public:
  BracketValue() : BracketArithmetic({"+", "-", "*"}) {}
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input;
    expression(random, n, input);
    return input;
  }
  Symbols answer(const Symbols& input) const override { return {value_of(input)}; }
};

}  // namespace

TaskGenerator mod_arith_brackets_task() {
  return task<BracketValue>({.name = "mod_arith_brackets",
                             .summary = "A bracketed expression of digits 0 to 4; its value modulo 5.",
                             .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
                             .length = "symbols of input",
                             .train = {1, 40},
                             .test = {41, 500}});
}

}  // namespace pe::data
