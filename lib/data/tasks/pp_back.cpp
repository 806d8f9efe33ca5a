// An offset at every place: the symbol so many places back.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class SymbolBack final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor&) override {}
  std::vector<std::string> symbols() const override { return numbered("s", 32) + numbered("back", 17); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 32); }
  double weight(std::int64_t n) const override { return n >= 2 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    const std::int64_t back = draw_between(random, 1, std::min<std::int64_t>(16, length - 1));
    const Symbols content = draw_many(random, length, 32);
    out.id(kTaskBos);
    out.symbol(32 + static_cast<std::int32_t>(back));
    for (std::int64_t i = 0; i < length; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (i < back)
        out.symbol(content[at]);
      else
        out.symbol(content[at], content[at - static_cast<std::size_t>(back)]);
    }
    return std::move(out.example);
  }
};

}  // namespace

TaskGenerator pp_back_task() {
  return task<SymbolBack>({.name = "pp_back",
                           .summary = "An offset r from 1 to 16, then symbols; at each the one r places back.",
                           .reference = "E 3.9",
                           .length = "symbols",
                           .train = {8, 64},
                           .test = {65, 256}});
}

}  // namespace pe::data
