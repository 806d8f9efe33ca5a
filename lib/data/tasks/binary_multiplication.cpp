// Context-sensitive: multiplication of binary numbers, low bit first.
#include "data/tasks/kit.h"

namespace pe::data {

namespace {

/// Bits of a number from 1 to 2^bits - 1, low bit first.
Symbols number(support::Xoshiro& random, std::int64_t bits) {
  Symbols drawn;
  do {
    drawn = draw_many(random, bits, 2);
  } while (std::find(drawn.begin(), drawn.end(), 1) == drawn.end());
  return drawn;
}

/// Product, then 2, then zeros.
Symbols finished(Symbols value, std::size_t length) {
  while (!value.empty() && value.back() == 0) value.pop_back();
  value.push_back(2);
  value.resize(length, 0);
  return value;
}

class BinaryMultiplication final : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1", "2"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 3); }
  std::int32_t terminator() const override { return 2; }
  double weight(std::int64_t n) const override { return n >= 3 ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    const std::int64_t first = draw_between(random, 1, n - 2);
    Symbols input = number(random, first);
    input.push_back(2);
    append(input, number(random, n - 1 - first));
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    const auto joint = static_cast<std::size_t>(std::find(input.begin(), input.end(), 2) - input.begin());
    Symbols product(input.size(), 0);
    for (std::size_t i = 0; i < joint; ++i) {
      if (input[i] == 0) continue;
      for (std::size_t j = joint + 1; j < input.size(); ++j) product[i + j - joint - 1] += input[j];
    }
    for (std::size_t i = 0; i + 1 < product.size(); ++i) {
      product[i + 1] += product[i] / 2;
      product[i] %= 2;
    }
    return finished(product, input.size());
  }
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
