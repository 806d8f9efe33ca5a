// The magnitude of a displacement: how far apart are the marks?
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class MarkDistance final : public QuestionTask {
  enum : std::int32_t { kMark = 32, kClasses };  // then distances 1 to 32

 public:
  std::vector<std::string> symbols() const override {
    std::vector<std::string> names = numbered("s", 32) + std::vector<std::string>{"M"};
    for (int distance = 1; distance <= 32; ++distance) names.push_back(std::to_string(distance));
    return names;
  }
  std::vector<std::int32_t> answers() const override { return ids_of(kClasses, kClasses + 32); }
  double weight(std::int64_t n) const override { return n >= 2 ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input = draw_many(random, n, 32);
    const std::int64_t distance = draw_between(random, 1, std::min<std::int64_t>(32, n - 1));
    const std::int64_t first = draw(random, n - distance);
    input[static_cast<std::size_t>(first)] = input[static_cast<std::size_t>(first + distance)] = kMark;
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    const auto first = std::find(input.begin(), input.end(), kMark);
    const auto second = std::find(first + 1, input.end(), kMark);
    return {kClasses + static_cast<std::int32_t>(second - first) - 1};
  }
};

}  // namespace

TaskGenerator pp_dist_task() {
  return task<MarkDistance>({.name = "pp_dist",
                             .summary = "Symbols with two marks; their distance, 1 to 32.",
                             .reference = "E 3.9",
                             .length = "symbols",
                             .train = {8, 64},
                             .test = {65, 256}});
}

}  // namespace pe::data
