// An absolute place: the index of a mark, modulo sixteen.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class MarkIndex final : public QuestionTask {
  enum : std::int32_t { kMark = 32, kClasses };

 public:
  std::vector<std::string> symbols() const override {
    return numbered("s", 32) + std::vector<std::string>{"M"} + numbered("", 16);
  }
  std::vector<std::int32_t> answers() const override { return ids_of(kClasses, kClasses + 16); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input = draw_many(random, n, 32);
    input[random.below(static_cast<std::uint64_t>(n))] = kMark;
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    return {kClasses + static_cast<std::int32_t>((std::find(input.begin(), input.end(), kMark) - input.begin()) % 16)};
  }
};

}  // namespace

TaskGenerator pp_index_task() {
  return task<MarkIndex>({.name = "pp_index",
                          .summary = "Symbols with a mark; its index modulo 16, from 0.",
                          .reference = "E 3.9",
                          .length = "symbols",
                          .train = {8, 64},
                          .test = {65, 256}});
}

}  // namespace pe::data
