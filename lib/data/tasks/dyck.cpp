// Brackets of several kinds, nested to a bounded depth: a language model, judged where a bracket closes.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class Dyck final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("kinds", kinds_, "Kinds of brackets (k).", {.min = 1, .max = 1000});
    v.field("depth", depth_, "Deepest nesting (m).", {.min = 1, .max = 1000});
  }
  std::vector<std::string> symbols() const override { return numbered("(", kinds_) + numbered(")", kinds_); }
  std::vector<std::int32_t> answers() const override { return ids_of(static_cast<std::int32_t>(kinds_), 2 * kinds_); }
  std::vector<std::int32_t> rivals() const override { return answers(); }
  double weight(std::int64_t n) const override { return n >= 2 && n % 2 == 0 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    // The automaton of Hewitt et al. with END refused before the length, and closings forced where it would be
    // exceeded.
    Symbols string, stack;
    for (std::int64_t left = length; left > 0; --left) {
      const auto open = static_cast<std::int64_t>(stack.size());
      const bool close = open == depth_ || open == left || (open > 0 && random.below(2) == 0);
      if (close) {
        string.push_back(static_cast<std::int32_t>(kinds_) + stack.back());
        stack.pop_back();
      } else {
        stack.push_back(draw(random, kinds_));
        string.push_back(stack.back());
      }
    }
    out.id(kTaskBos, kFirstSymbol + string[0]);
    for (std::size_t i = 0; i < string.size(); ++i) {
      out.id(kFirstSymbol + string[i], i + 1 < string.size() ? kFirstSymbol + string[i + 1] : kTaskEos);
    }
    out.id(kTaskEos);
    // Which bracket opens next, and when, cannot be known.
    out.example.unjudged.assign(out.example.ids.size(), 1);
    out.example.distance.assign(out.example.ids.size(), 0);
    std::vector<std::size_t> opened;
    for (std::size_t i = 0; i < string.size(); ++i) {
      const bool closes = string[i] >= kinds_;
      out.example.unjudged[i] = closes ? 0 : 1;
      if (closes) {
        out.example.distance[i] = static_cast<std::int32_t>(i - opened.back());
        opened.pop_back();
      } else {
        opened.push_back(i);
      }
    }
    return std::move(out.example);
  }

 private:
  std::int64_t kinds_ = 8, depth_ = 10;
};

}  // namespace

TaskGenerator dyck_task() {
  return task<Dyck>({.name = "dyck",
                     .summary = "Brackets; every next symbol is learned, closing ones are judged.",
                     .reference = "Hewitt et al. 2020; Yao et al. 2021, arXiv:2105.11115; E 3.7",
                     .length = "brackets",
                     .train = {2, 100},
                     .test = {102, 200}});
}

}  // namespace pe::data
