// Context-sensitive: twice.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class DuplicateString final : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 2); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override { return draw_many(random, n, 2); }
  Symbols answer(const Symbols& input) const override {
    Symbols twice = input;
    append(twice, input);
    return twice;
  }
};

}  // namespace

TaskGenerator duplicate_string_task() {
  return task<DuplicateString>({.name = "duplicate_string",
                                .summary = "n bits; twice.",
                                .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
                                .length = "symbols of input",
                                .train = {1, 40},
                                .test = {41, 500}});
}

}  // namespace pe::data
