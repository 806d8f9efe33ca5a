// A chain of variables, each plus or minus the one before it.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class Lego final : public QuestionTask {
  enum : std::int32_t { kEquals = 26, kPlus, kMinus, kOne, kSemicolon, kQuestion, kPlusOne, kMinusOne };

 public:
  void describe(support::FieldVisitor& v) override { v.field("permuted", permuted_, "Clauses in any order."); }
  std::vector<std::string> symbols() const override {
    std::vector<std::string> names;
    for (char c = 'a'; c <= 'z'; ++c) names.emplace_back(1, c);
    return names + std::vector<std::string>{"=", "+", "-", "1", ";", "?", "+1", "-1"};
  }
  std::vector<std::int32_t> answers() const override { return ids_of(kPlusOne, kMinusOne + 1); }
  double weight(std::int64_t n) const override { return n >= 2 && n <= 26 ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    const std::vector<std::uint64_t> letters = random.sample(26, static_cast<std::uint64_t>(n));
    std::vector<Symbols> clauses;
    for (std::size_t i = 0; i < letters.size(); ++i) {
      const std::int32_t sign = random.below(2) == 0 ? kPlus : kMinus;
      clauses.push_back({static_cast<std::int32_t>(letters[i]), kEquals, sign,
                         i == 0 ? kOne : static_cast<std::int32_t>(letters[i - 1]), kSemicolon});
    }
    const std::int64_t asked = draw_between(random, (n + 1) / 2, n - 1);
    if (permuted_) random.shuffle(clauses);
    Symbols input;
    for (const Symbols& clause : clauses) append(input, clause);
    append(input, {kQuestion, static_cast<std::int32_t>(letters[static_cast<std::size_t>(asked)])});
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    // Walks from the variable asked for to the clause that says 1.
    std::int32_t variable = input.back(), sign = 1;
    while (variable != kOne) {
      for (std::size_t clause = 0; input[clause] != kQuestion; clause += 5) {
        if (input[clause] != variable) continue;
        if (input[clause + 2] == kMinus) sign = -sign;
        variable = input[clause + 3];
        break;
      }
    }
    return {sign > 0 ? kPlusOne : kMinusOne};
  }

 private:
  bool permuted_ = false;
};

}  // namespace

TaskGenerator lego_task() {
  return task<Lego>({.name = "lego",
                     .summary = "a = + 1 ; b = - a ; … ? c, c in the second half of the chain; +1 or -1.",
                     .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                     .length = "variables",
                     .train = {4, 8},
                     .test = {9, 16}});
}

}  // namespace pe::data
