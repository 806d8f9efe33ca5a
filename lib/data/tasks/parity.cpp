// Is the number of ones even?
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class Parity final : public QuestionTask {
  static constexpr std::int32_t kComma = 2, kYes = 3, kNo = 4;

 public:
  std::vector<std::string> symbols() const override { return {"0", "1", ",", "Yes", "No"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(kYes, kNo + 1); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input;
    for (std::int64_t i = 0; i < n; ++i) {
      if (i > 0) input.push_back(kComma);
      input.push_back(draw(random, 2));
    }
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    return {std::count(input.begin(), input.end(), 1) % 2 == 0 ? kYes : kNo};
  }
};

}  // namespace

TaskGenerator parity_task() {
  return task<Parity>({.name = "parity",
                       .summary = "b1, b2, …; Yes when the number of ones is even, else No.",
                       .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                       .length = "bits",
                       .train = {1, 8},
                       .test = {9, 16}});
}

}  // namespace pe::data
