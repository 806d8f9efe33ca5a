// A marker that occurs once: what followed it?
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class InductionHeads final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor&) override {}
  std::vector<std::string> symbols() const override { return numbered("s", 16) + std::vector<std::string>{"MARK"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 16); }
  double weight(std::int64_t n) const override { return n >= 3 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    constexpr std::int32_t kMark = 16;
    Symbols ids = draw_many(random, length, 16);
    const std::size_t place = random.below(static_cast<std::uint64_t>(length - 2));
    ids[place] = kMark;
    const std::int32_t after = ids[place + 1];
    ids.pop_back();
    out.symbols(ids);
    out.symbol(kMark, after);
    return std::move(out.example);
  }
};

}  // namespace

TaskGenerator induction_task() {
  return task<InductionHeads>(
      {.name = "induction",
       .summary = "Symbols with one marker, then the marker again; the symbol that followed it.",
       .reference = "Gu and Dao 2023 (Mamba), arXiv:2312.00752; E 3.6",
       .length = "tokens",
       .train = {256, 256},
       .test = {64, 4096}});
}

}  // namespace pe::data
