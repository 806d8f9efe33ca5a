// An address: which symbol has this index?
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

constexpr std::int32_t kDigits = 32;

class NthSymbol final : public QuestionTask {
 public:
  std::vector<std::string> symbols() const override { return numbered("s", 32) + numbered("", 10); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 32); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input = draw_many(random, n, 32);
    for (const std::int32_t digit : digits_of(draw(random, n))) input.push_back(kDigits + digit);
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    std::size_t index = 0;
    for (const std::int32_t symbol : input) {
      if (symbol >= kDigits) index = index * 10 + static_cast<std::size_t>(symbol - kDigits);
    }
    return {input[index]};
  }
};

}  // namespace

TaskGenerator pp_nth_task() {
  return task<NthSymbol>({.name = "pp_nth",
                          .summary = "n symbols and an index in digits, from 0; the symbol there.",
                          .reference = "E 3.9",
                          .length = "symbols",
                          .train = {8, 64},
                          .test = {65, 256}});
}

}  // namespace pe::data
