// Regular: arithmetic without brackets modulo five. An even length is lowered by one, as in the source's code; its
// paper says raised.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class ModularArithmetic final : public ChomskyTask {
  enum : std::int32_t { kPlus = 5, kMinus, kTimes };

 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1", "2", "3", "4", "+", "-", "*"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 5); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    if (n % 2 == 0) --n;
    Symbols input;
    for (std::int64_t i = 0; i < n; ++i) input.push_back(i % 2 == 0 ? draw(random, 5) : kPlus + draw(random, 3));
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    std::int32_t sum = 0, product = input[0], sign = 1;
    for (std::size_t i = 1; i + 1 < input.size(); i += 2) {
      if (input[i] == kTimes) {
        product = product * input[i + 1] % 5;
        continue;
      }
      sum += sign * product;
      sign = input[i] == kPlus ? 1 : -1;
      product = input[i + 1];
    }
    sum += sign * product;
    return {(sum % 5 + 5) % 5};
  }
};

}  // namespace

TaskGenerator mod_arith_simple_task() {
  return task<ModularArithmetic>({.name = "mod_arith_simple",
                                  .summary = "d op d op …, digits 0 to 4; the value modulo 5, * before + and -.",
                                  .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
                                  .length = "symbols of input",
                                  .train = {1, 40},
                                  .test = {41, 500}});
}

}  // namespace pe::data
