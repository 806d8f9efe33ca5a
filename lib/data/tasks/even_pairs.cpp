// Regular: is the number of unequal neighbours odd? That is whether first and last differ.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class EvenPairs final : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 2); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override { return draw_many(random, n, 2); }
  Symbols answer(const Symbols& input) const override { return {input.front() != input.back() ? 1 : 0}; }
};

}  // namespace

TaskGenerator even_pairs_task() {
  return task<EvenPairs>({.name = "even_pairs",
                          .summary = "n bits; 1 when the number of unequal neighbours is odd.",
                          .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
                          .length = "symbols of input",
                          .train = {1, 40},
                          .test = {41, 500}});
}

}  // namespace pe::data
