// Context-sensitive: multiplication of binary numbers, low bit first.
#include "data/tasks/binary_arithmetic.h"

namespace pe::data {

namespace {

class BinaryMultiplication final : public BinaryArithmetic {
  Symbols combined(const Symbols& x, const Symbols& y) const override {
    Symbols product(x.size() + y.size(), 0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = 0; j < y.size(); ++j) product[i + j] += x[i] * y[j];
    }
    for (std::size_t i = 0; i + 1 < product.size(); ++i) {
      product[i + 1] += product[i] / 2;
      product[i] %= 2;
    }
    return product;
  }
  std::size_t output_symbols(std::size_t input) const override { return input; }
};

}  // namespace

TaskGenerator binary_multiplication_task() {
  return task<BinaryMultiplication>({.name = "binary_multiplication",
                                     .summary = "x 2 y, low bits first; x times y, 2, zeros.",
                                     .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
                                     .length = "symbols of input",
                                     .train = {3, 40},
                                     .test = {41, 500}});
}

}  // namespace pe::data
