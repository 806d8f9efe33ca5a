// A polynomial at a point, modulo ten.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class Polynomial final : public QuestionTask {
  enum : std::int32_t { kMinus = 10, kPlus, kTimes, kPower, kX, kSemicolon };

 public:
  std::vector<std::string> symbols() const override {
    return numbered("", 10) + std::vector<std::string>{"-", "+", "*", "**", "x", ";"};
  }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 10); }
  Symbols ask(support::Xoshiro& random, std::int64_t terms) const override {
    Symbols input = signed_digit(draw_between(random, -2, 2));
    input.push_back(kSemicolon);
    for (std::int64_t i = 0; i < terms; ++i) {
      if (i > 0) input.push_back(kPlus);
      append(input, signed_digit(draw_between(random, -3, 3)));
      append(input, {kTimes, kX, kPower, draw(random, 4)});
    }
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    std::size_t at = 0;
    const auto number = [&] {
      const bool minus = input[at] == kMinus;
      at += minus ? 1 : 0;
      const std::int64_t digit = input[at++];
      return minus ? -digit : digit;
    };
    const std::int64_t x = number();
    std::int64_t sum = 0;
    while (at < input.size()) {
      ++at;  // ; or +
      std::int64_t term = number();
      at += 3;  // * x **
      for (std::int32_t power = input[at++]; power > 0; --power) term *= x;
      sum += term;
    }
    return {static_cast<std::int32_t>((sum % 10 + 10) % 10)};
  }

 private:
  static Symbols signed_digit(std::int64_t value) {
    const auto digit = static_cast<std::int32_t>(value < 0 ? -value : value);
    return value < 0 ? Symbols{kMinus, digit} : Symbols{digit};
  }
};

}  // namespace

TaskGenerator poly_task() {
  return task<Polynomial>(
      {.name = "poly",
       .summary = "x ; c * x ** e + …, coefficients -3 to 3, degrees 0 to 3, x in -2 to 2; the value modulo 10.",
       .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
       .length = "terms",
       .train = {1, 8},
       .test = {9, 16}});
}

}  // namespace pe::data
