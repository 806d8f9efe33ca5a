// Context-sensitive: elements at odd places (counted from 0), then those at even ones, as the source's code has it; its
// docstring shows the opposite order.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class OddsFirst final : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 2); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override { return draw_many(random, n, 2); }
  Symbols answer(const Symbols& input) const override {
    Symbols output;
    for (std::size_t i = 1; i < input.size(); i += 2) output.push_back(input[i]);
    for (std::size_t i = 0; i < input.size(); i += 2) output.push_back(input[i]);
    return output;
  }
};

}  // namespace

TaskGenerator odds_first_task() {
  return task<OddsFirst>({.name = "odds_first",
                          .summary = "n bits; those at odd places, then those at even places.",
                          .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
                          .length = "symbols of input",
                          .train = {1, 40},
                          .test = {41, 500}});
}

}  // namespace pe::data
