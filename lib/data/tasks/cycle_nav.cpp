// Regular: steps on a circle of five places.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class CycleNavigation final : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1", "2", "3", "4"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 5); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override { return draw_many(random, n, 3); }
  Symbols answer(const Symbols& input) const override {
    std::int64_t place = 0;
    for (const std::int32_t step : input) place += step - 1;
    return {static_cast<std::int32_t>((place % 5 + 5) % 5)};
  }
};

}  // namespace

TaskGenerator cycle_nav_task() {
  return task<CycleNavigation>({.name = "cycle_nav",
                                .summary = "n steps -1, 0, +1 (codes 0, 1, 2); the place on a circle of 5.",
                                .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
                                .length = "symbols of input",
                                .train = {1, 40},
                                .test = {41, 500}});
}

}  // namespace pe::data
