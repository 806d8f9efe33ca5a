// A chain of digits, modulo ten.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class SumMod final : public QuestionTask {
  static constexpr std::int32_t kPlus = 10;

 public:
  std::vector<std::string> symbols() const override { return numbered("", 10) + std::vector<std::string>{"+"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 10); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input;
    for (std::int64_t i = 0; i < n; ++i) {
      if (i > 0) input.push_back(kPlus);
      input.push_back(1 + draw(random, 9));
    }
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < input.size(); i += 2) sum += input[i];
    return {sum % 10};
  }
};

}  // namespace

TaskGenerator sum_mod_task() {
  return task<SumMod>({.name = "sum_mod",
                       .summary = "d1 + d2 + …, digits 1 to 9; the sum modulo 10.",
                       .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                       .length = "digits",
                       .train = {2, 8},
                       .test = {9, 16}});
}

}  // namespace pe::data
