// Integers of several digits, sorted.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class SortMulti final : public QuestionTask {
  static constexpr std::int32_t kComma = 10;

 public:
  void describe(support::FieldVisitor& v) override {
    v.field("low", low_, "Smallest number.", {.min = 0});
    v.field("high", high_, "Largest number.", {.min = 1});
    v.check(low_ < high_, "low is below high");
  }
  std::vector<std::string> symbols() const override { return numbered("", 10) + std::vector<std::string>{","}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 10); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < n; ++i) numbers.push_back(draw_between(random, low_, high_));
    return written(numbers);
  }
  Symbols answer(const Symbols& input) const override {
    std::vector<std::int64_t> numbers(1, 0);
    for (const std::int32_t symbol : input) {
      if (symbol == kComma)
        numbers.push_back(0);
      else
        numbers.back() = numbers.back() * 10 + symbol;
    }
    std::sort(numbers.begin(), numbers.end());
    return written(numbers);
  }

 private:
  static Symbols written(const std::vector<std::int64_t>& numbers) {
    Symbols all;
    for (const std::int64_t number : numbers) {
      if (!all.empty()) all.push_back(kComma);
      append(all, digits_of(number));
    }
    return all;
  }
  std::int64_t low_ = 10, high_ = 9999;
};

}  // namespace

TaskGenerator sort_multi_task() {
  return task<SortMulti>({.name = "sort_multi",
                          .summary = "n numbers, digit by digit, with commas; the same sorted.",
                          .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                          .length = "numbers",
                          .train = {2, 8},
                          .test = {9, 16}});
}

}  // namespace pe::data
