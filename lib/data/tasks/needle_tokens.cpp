// Needles in filler, of tokens alone.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class NeedleTokens final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("needles", needles_, "Keys with values.", {.min = 1, .max = 64});
  }
  std::vector<std::string> symbols() const override {
    return numbered("f", 32) + numbered("k", 64) + numbered("v", 64) + std::vector<std::string>{"KEY"};
  }
  std::vector<std::int32_t> answers() const override { return ids_of(96, 160); }
  double weight(std::int64_t n) const override { return n >= 3 * needles_ + 3 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    constexpr std::int32_t kKeys = 32, kValues = 96, kMark = 160;
    const auto count = static_cast<std::uint64_t>(needles_);
    const std::int64_t filler = length - 3 * needles_ - 3;
    const std::vector<std::uint64_t> keys = random.sample(64, count), values = random.sample(64, count);
    // Which of the filler and needles that follow each other are needles.
    const std::vector<std::uint64_t> places = random.sample(static_cast<std::uint64_t>(filler) + count, count);
    std::vector<std::int64_t> needle(static_cast<std::size_t>(filler + needles_), -1);
    for (std::size_t i = 0; i < places.size(); ++i) needle[places[i]] = static_cast<std::int64_t>(i);
    out.id(kTaskBos);
    for (const std::int64_t i : needle) {
      if (i < 0) {
        out.symbol(draw(random, 32));
        continue;
      }
      const auto at = static_cast<std::size_t>(i);
      out.symbols(
          {kMark, kKeys + static_cast<std::int32_t>(keys[at]), kValues + static_cast<std::int32_t>(values[at])});
    }
    const std::size_t asked = random.below(count);
    out.symbol(kMark);
    out.symbol(kKeys + static_cast<std::int32_t>(keys[asked]), kValues + static_cast<std::int32_t>(values[asked]));
    return std::move(out.example);
  }

 private:
  std::int64_t needles_ = 4;
};

}  // namespace

TaskGenerator needle_tokens_task() {
  return task<NeedleTokens>({.name = "needle_tokens",
                             .summary = "Filler with needles KEY k v, then KEY k; v.",
                             .reference = "E 3.6",
                             .length = "tokens",
                             .train = {32, 128},
                             .test = {129, 2048}});
}

}  // namespace pe::data
