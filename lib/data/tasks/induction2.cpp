// A random segment twice: the second copy is known.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class RepeatedSegment final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("alphabet", alphabet_, "Symbols to draw from.", {.min = 2, .max = 100000});
  }
  std::vector<std::string> symbols() const override { return numbered("s", alphabet_); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, alphabet_); }
  double weight(std::int64_t m) const override { return m >= 2 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    const Symbols segment = draw_many(random, length, alphabet_);
    out.id(kTaskBos);
    out.symbols(segment);
    for (std::size_t i = 0; i + 1 < segment.size(); ++i) out.symbol(segment[i], segment[i + 1]);
    out.symbol(segment.back());
    return std::move(out.example);
  }

 private:
  std::int64_t alphabet_ = 64;
};

}  // namespace

TaskGenerator induction2_task() {
  return task<RepeatedSegment>(
      {.name = "induction2",
       .summary = "A segment of m symbols twice; each symbol of the second copy but its first.",
       .reference = "Olsson et al. 2022, arXiv:2209.11895; E 3.6",
       .length = "symbols of the segment",
       .train = {8, 64},
       .test = {64, 512}});
}

}  // namespace pe::data
