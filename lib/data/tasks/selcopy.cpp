// Data among blanks: say the data in order.
#include <cmath>

#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

constexpr std::int64_t kData = 16;
constexpr std::int32_t kBlank = kData;

class SelectiveCopy final : public QuestionTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("blanks", blanks_, "Blanks for each data symbol: 1 in training, 0.5 (dense) and 2 (sparse) in tests.",
            {.min = 0, .max = 100});
  }
  std::vector<std::string> symbols() const override { return numbered("d", kData) + std::vector<std::string>{"_"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, kData); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    const auto all =
        static_cast<std::uint64_t>(n) + static_cast<std::uint64_t>(std::llround(blanks_ * static_cast<double>(n)));
    Symbols input(all, kBlank);
    for (const std::uint64_t place : random.sample(all, static_cast<std::uint64_t>(n)))
      input[place] = draw(random, kData);
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    Symbols data;
    for (const std::int32_t symbol : input) {
      if (symbol != kBlank) data.push_back(symbol);
    }
    return data;
  }

 private:
  double blanks_ = 1;
};

}  // namespace

TaskGenerator selcopy_task() {
  return task<SelectiveCopy>({.name = "selcopy",
                              .summary = "n data symbols at random places among blanks; the data in order.",
                              .reference = "Gu and Dao 2023, in the splits of CoPE; E 3.4",
                              .length = "data symbols",
                              .train = {32, 32},
                              .test = {32, 32}});
}

}  // namespace pe::data
