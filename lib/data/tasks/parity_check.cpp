// Regular: the sum modulo two.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class ParityCheck final : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 2); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override { return draw_many(random, n, 2); }
  Symbols answer(const Symbols& input) const override {
    return {static_cast<std::int32_t>(std::count(input.begin(), input.end(), 1) % 2)};
  }
};

}  // namespace

TaskGenerator parity_check_task() {
  return task<ParityCheck>({.name = "parity_check",
                            .summary = "n bits; their sum modulo 2.",
                            .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
                            .length = "symbols of input",
                            .train = {1, 40},
                            .test = {41, 500}});
}

}  // namespace pe::data
