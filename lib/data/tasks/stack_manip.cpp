// Deterministic context-free: a stack, and operations on it.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

enum : std::int32_t { kPop = 2, kPushZero, kPushOne };

class StackManipulation final : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1", "2", "PUSH0", "PUSH1"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 3); }
  std::int32_t terminator() const override { return 2; }
  double weight(std::int64_t n) const override { return n >= 2 ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    const std::int64_t stack = draw_between(random, 1, n - 1);
    Symbols input = draw_many(random, stack, 2);
    for (std::int64_t i = stack; i < n; ++i) input.push_back(kPop + draw(random, 3));
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    Symbols stack;
    for (const std::int32_t symbol : input) {
      if (symbol < kPop)
        stack.push_back(symbol);
      else if (symbol != kPop)
        stack.push_back(symbol - kPushZero);
      else if (!stack.empty())
        stack.pop_back();
    }
    Symbols output(stack.rbegin(), stack.rend());
    output.push_back(2);
    output.resize(input.size() + 1, 0);
    return output;
  }
};

}  // namespace

TaskGenerator stack_manip_task() {
  return task<StackManipulation>(
      {.name = "stack_manip",
       .summary = "A stack, bottom first, and actions (2 pops); the stack top first, 2, zeros.",
       .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
       .length = "symbols of input",
       .train = {2, 40},
       .test = {41, 500}});
}

}  // namespace pe::data
