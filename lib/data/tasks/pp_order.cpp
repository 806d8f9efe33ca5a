// The sign of a displacement: which mark came first?
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class WhichFirst final : public QuestionTask {
  enum : std::int32_t { kA = 32, kB, kYes, kNo };

 public:
  std::vector<std::string> symbols() const override {
    return numbered("s", 32) + std::vector<std::string>{"A", "B", "yes", "no"};
  }
  std::vector<std::int32_t> answers() const override { return ids_of(kYes, kNo + 1); }
  double weight(std::int64_t n) const override { return n >= 2 ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input = draw_many(random, n, 32);
    const std::vector<std::uint64_t> places = random.sample(static_cast<std::uint64_t>(n), 2);
    input[places[0]] = kA;
    input[places[1]] = kB;
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    return {std::find(input.begin(), input.end(), kA) < std::find(input.begin(), input.end(), kB) ? kYes : kNo};
  }
};

}  // namespace

TaskGenerator pp_order_task() {
  return task<WhichFirst>({.name = "pp_order",
                           .summary = "Symbols with marks A and B; did A come first?",
                           .reference = "E 3.9",
                           .length = "symbols",
                           .train = {8, 64},
                           .test = {65, 256}});
}

}  // namespace pe::data
