// Write, read and ignore: what was written last?
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class FlipFlop final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("ignore", ignore_, "Share of ignore instructions: 0.8 in training; 0.98 (sparse) and 0.1 (dense) in tests.",
            {.min = 0, .max = 1});
  }
  std::vector<std::string> symbols() const override { return {"w", "r", "i", "0", "1"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(3, 5); }
  double weight(std::int64_t length) const override { return length >= 4 && length % 2 == 0 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    enum : std::int32_t { kWrite, kRead, kIgnore, kZero };
    out.id(kTaskBos);
    std::int32_t memory = 0;
    const std::int64_t pairs = length / 2;
    for (std::int64_t i = 0; i < pairs; ++i) {
      std::int32_t instruction = kIgnore;
      if (i == 0)
        instruction = kWrite;
      else if (i + 1 == pairs)
        instruction = kRead;
      else if (random.uniform() >= ignore_)
        instruction = random.below(2) == 0 ? kWrite : kRead;
      std::int32_t bit = draw(random, 2);
      if (instruction == kRead) bit = memory;
      if (instruction == kWrite) memory = bit;
      if (instruction == kRead)
        out.symbol(kRead, kZero + bit);
      else
        out.symbol(instruction);
      out.symbol(kZero + bit);
    }
    return std::move(out.example);
  }

 private:
  double ignore_ = 0.8;
};

}  // namespace

TaskGenerator flipflop_task() {
  return task<FlipFlop>({.name = "flipflop",
                         .summary = "Pairs of w, r, i and a bit; after r the bit written last.",
                         .reference = "Liu et al. 2023, arXiv:2306.00946; E 3.4",
                         .length = "tokens",
                         .train = {512, 512},
                         .test = {512, 1024}});
}

}  // namespace pe::data
