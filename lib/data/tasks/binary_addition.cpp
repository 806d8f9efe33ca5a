// Context-sensitive: addition of binary numbers, low bit first.
#include "data/tasks/binary_arithmetic.h"

namespace pe::data {

namespace {

class BinaryAddition final : public BinaryArithmetic {
  Symbols combined(const Symbols& x, const Symbols& y) const override {
    Symbols sum;
    std::int32_t carry = 0;
    for (std::size_t i = 0; i <= std::max(x.size(), y.size()); ++i) {
      if (i < x.size()) carry += x[i];
      if (i < y.size()) carry += y[i];
      sum.push_back(carry % 2);
      carry /= 2;
    }
    return sum;
  }
  std::size_t output_symbols(std::size_t input) const override { return input + 1; }
};

}  // namespace

TaskGenerator binary_addition_task() {
  return task<BinaryAddition>({.name = "binary_addition",
                               .summary = "x 2 y, low bits first; x + y, 2, zeros.",
                               .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
                               .length = "symbols of input",
                               .train = {3, 40},
                               .test = {41, 500}});
}

}  // namespace pe::data
