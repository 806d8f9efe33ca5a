// Counters in a program: what is the value of a variable after these lines?
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class Count final : public QuestionTask {
  enum : std::int32_t { kEquals, kSemicolon, kIncrement, kPass, kPrint, kValues };  // then values 0 to 10, then names
  static constexpr std::int32_t kLargest = 10;
  static constexpr std::int32_t kNames = kValues + kLargest + 1;

 public:
  void describe(support::FieldVisitor& v) override {
    v.field("variables", variables_, "Names that a program may use.", {.min = 1, .max = 26});
    v.field("max_tokens", max_tokens_, "Longer programs lose their beginning, and some their answer; 0: none does.",
            {.unit = "tokens", .min = 0});
  }
  std::vector<std::string> symbols() const override {
    std::vector<std::string> names = {"=", ";", "++", "pass", "print"};
    for (std::int32_t value = 0; value <= kLargest; ++value) names.push_back(std::to_string(value));
    for (char c = 'a'; c <= 'z'; ++c) names.emplace_back(1, c);
    return names;
  }
  std::vector<std::int32_t> answers() const override { return ids_of(kValues, kNames); }
  Symbols ask(support::Xoshiro& random, std::int64_t lines) const override {
    for (;;) {
      Symbols input, declared;
      std::vector<std::int32_t> value(26, -1);
      for (std::int64_t line = 0; line < lines;) {
        const std::int64_t kind = draw(random, 58);  // set 1, pass 50, increment 7
        if (kind == 0) {
          const std::int32_t name = draw(random, variables_);
          if (value[static_cast<std::size_t>(name)] < 0) declared.push_back(name);
          value[static_cast<std::size_t>(name)] = 0;
          append(input, {kNames + name, kEquals, kValues, kSemicolon});
        } else if (kind <= 50) {
          input.push_back(kPass);
        } else {
          if (declared.empty()) continue;
          const std::int32_t name = declared[random.below(declared.size())];
          if (value[static_cast<std::size_t>(name)] == kLargest) continue;
          ++value[static_cast<std::size_t>(name)];
          append(input, {kNames + name, kIncrement});
        }
        ++line;
      }
      if (declared.empty()) continue;
      append(input, {kPrint, kNames + declared[random.below(declared.size())]});
      return input;
    }
  }
  Symbols answer(const Symbols& input) const override {
    std::int32_t value = 0;
    for (std::size_t i = 0; i + 2 < input.size(); ++i) {
      if (input[i] != input.back()) continue;
      if (input[i + 1] == kEquals) value = 0;
      if (input[i + 1] == kIncrement) ++value;
    }
    return {kValues + value};
  }
  TaskExample example(support::Xoshiro& random, std::int64_t lines, Split split) const override {
    TaskExample made = QuestionTask::example(random, lines, split);
    if (max_tokens_ > 0 && static_cast<std::int64_t>(made.ids.size()) > max_tokens_) {
      const auto cut = static_cast<std::ptrdiff_t>(made.ids.size()) - max_tokens_;
      made.ids.erase(made.ids.begin(), made.ids.begin() + cut);
      made.labels.erase(made.labels.begin(), made.labels.begin() + cut);
    }
    return made;
  }

 private:
  std::int64_t variables_ = 3;
  std::int64_t max_tokens_ = 0;
};

}  // namespace

TaskGenerator count_task() {
  return task<Count>({.name = "count",
                      .summary = "Lines `v = 0 ;`, `v ++` and `pass`, then print v; its value.",
                      .reference = "Golovneva et al. 2024 (CoPE), arXiv:2405.18719; E 3.4",
                      .length = "lines",
                      .train = {3, 128},
                      .test = {129, 512}});
}

}  // namespace pe::data
