// Tasks of Kazemnejad et al. 2023 (E 3.2), but for addition and SCAN.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

/// Symbols that are said twice with NEXT between, each time forwards or backwards.
class SaidTwice : public AlphabetTask {
 public:
  std::vector<std::string> symbols() const override {
    return numbered("s", alphabet_) + std::vector<std::string>{"NEXT"};
  }
  Symbols answer(const Symbols& input) const override {
    Symbols target = said(input, first_);
    target.push_back(static_cast<std::int32_t>(alphabet_));
    append(target, said(input, second_));
    return target;
  }

 protected:
  enum Order { kForwards, kBackwards };
  SaidTwice(Order first, Order second) : AlphabetTask(100), first_(first), second_(second) {}

 private:
  static Symbols said(const Symbols& input, Order order) {
    return order == kForwards ? input : Symbols(input.rbegin(), input.rend());
  }

  Order first_, second_;
};

/// Symbols drawn freely: cmc of the source.
class CopyMulti final : public AlphabetTask {
 public:
  CopyMulti() : AlphabetTask(100) {}
  void describe(support::FieldVisitor& v) override {
    AlphabetTask::describe(v);
    v.field("distinct", distinct_, "No symbol twice.");
  }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    if (!distinct_) return draw_many(random, n, alphabet_);
    Symbols input;
    for (const std::uint64_t symbol :
         random.sample(static_cast<std::uint64_t>(alphabet_), static_cast<std::uint64_t>(n))) {
      input.push_back(static_cast<std::int32_t>(symbol));
    }
    return input;
  }
  Symbols answer(const Symbols& input) const override { return input; }
  double weight(std::int64_t n) const override { return n >= 1 && (!distinct_ || n <= alphabet_) ? 1 : 0; }

  bool distinct_ = false;
};

/// Twice: cmc2x of the source.
class CopyMultiTwice final : public SaidTwice {
 public:
  CopyMultiTwice() : SaidTwice(kForwards, kForwards) {}
};

/// One symbol, repeated: rsc of the source, "Copy" of its main figure.
class CopyRepeat : public AlphabetTask {
 public:
  CopyRepeat() : AlphabetTask(26) {}
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    return Symbols(static_cast<std::size_t>(n), draw(random, alphabet_));
  }
  Symbols answer(const Symbols& input) const override { return input; }
};

/// One symbol, repeated twice as often: rsc2x of the source.
class CopyRepeatTwice final : public CopyRepeat {
 public:
  Symbols answer(const Symbols& input) const override {
    Symbols target = input;
    append(target, input);
    return target;
  }
};

/// One symbol by another: rdc of the source.
class CopyReplace final : public AlphabetTask {
 public:
  CopyReplace() : AlphabetTask(26) {}
  std::vector<std::string> symbols() const override {
    return numbered("s", alphabet_) + std::vector<std::string>{"MAP", "IN"};
  }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    const std::int32_t from = draw(random, alphabet_);
    std::int32_t to = draw(random, alphabet_ - 1);
    if (to >= from) ++to;
    Symbols input = {map(), from, to, in()};
    append(input, Symbols(static_cast<std::size_t>(n), from));
    return input;
  }
  Symbols answer(const Symbols& input) const override { return Symbols(input.size() - 4, input[2]); }
  std::int32_t map() const { return static_cast<std::int32_t>(alphabet_); }
  std::int32_t in() const { return static_cast<std::int32_t>(alphabet_) + 1; }
};

/// Backwards: mc of the source.
class Reverse final : public AlphabetTask {
 public:
  Reverse() : AlphabetTask(100) {}
  Symbols answer(const Symbols& input) const override { return {input.rbegin(), input.rend()}; }
};

/// Backwards twice: mc2x of the source, "Reverse" of its main figure.
class ReverseTwice final : public SaidTwice {
 public:
  ReverseTwice() : SaidTwice(kBackwards, kBackwards) {}
};

/// Backwards, then forwards: mcrv of the source.
class ReverseCopy final : public SaidTwice {
 public:
  ReverseCopy() : SaidTwice(kBackwards, kForwards) {}
};

/// Symbols of an ordered alphabet, sorted.
class SortSingle final : public AlphabetTask {
 public:
  SortSingle() : AlphabetTask(50) {}
  Symbols answer(const Symbols& input) const override {
    Symbols target = input;
    std::sort(target.begin(), target.end());
    return target;
  }
};

/// Integers of several digits, sorted.
class SortMulti final : public QuestionTask {
  static constexpr std::int32_t kComma = 10;

 public:
  void describe(support::FieldVisitor& v) override {
    v.field("low", low_, "Smallest number.", {.min = 0});
    v.field("high", high_, "Largest number.", {.min = 1});
    v.check(low_ < high_, "low is below high");
  }
  std::vector<std::string> symbols() const override { return numbered("", 10) + std::vector<std::string>{","}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 10); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < n; ++i) numbers.push_back(draw_between(random, low_, high_));
    return written(numbers);
  }
  Symbols answer(const Symbols& input) const override {
    std::vector<std::int64_t> numbers(1, 0);
    for (const std::int32_t symbol : input) {
      if (symbol == kComma)
        numbers.push_back(0);
      else
        numbers.back() = numbers.back() * 10 + symbol;
    }
    std::sort(numbers.begin(), numbers.end());
    return written(numbers);
  }

 private:
  static Symbols written(const std::vector<std::int64_t>& numbers) {
    Symbols all;
    for (const std::int64_t number : numbers) {
      if (!all.empty()) all.push_back(kComma);
      append(all, digits_of(number));
    }
    return all;
  }
  std::int64_t low_ = 10, high_ = 9999;
};

/// Is the number of ones even?
class Parity final : public QuestionTask {
  static constexpr std::int32_t kComma = 2, kYes = 3, kNo = 4;

 public:
  std::vector<std::string> symbols() const override { return {"0", "1", ",", "Yes", "No"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(kYes, kNo + 1); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input;
    for (std::int64_t i = 0; i < n; ++i) {
      if (i > 0) input.push_back(kComma);
      input.push_back(draw(random, 2));
    }
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    return {std::count(input.begin(), input.end(), 1) % 2 == 0 ? kYes : kNo};
  }
};

/// A chain of digits, modulo ten.
class SumMod final : public QuestionTask {
  static constexpr std::int32_t kPlus = 10;

 public:
  std::vector<std::string> symbols() const override { return numbered("", 10) + std::vector<std::string>{"+"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 10); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input;
    for (std::int64_t i = 0; i < n; ++i) {
      if (i > 0) input.push_back(kPlus);
      input.push_back(1 + draw(random, 9));
    }
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < input.size(); i += 2) sum += input[i];
    return {sum % 10};
  }
};

/// A polynomial at a point, modulo ten.
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

/// A chain of variables, each plus or minus the one before it.
class Lego final : public QuestionTask {
  enum : std::int32_t { kEquals = 26, kPlus, kMinus, kOne, kSemicolon, kQuestion, kPlusOne, kMinusOne };

 public:
  void describe(support::FieldVisitor& v) override { v.field("permuted", permuted_, "Clauses in any order."); }
  std::vector<std::string> symbols() const override {
    return letters() + std::vector<std::string>{"=", "+", "-", "1", ";", "?", "+1", "-1"};
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

std::vector<TaskGenerator> length_generalisation_tasks() {
  const char* source = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2";
  return {
      task<CopyMulti>("copy_multi", "n symbols; the same again.", source, "symbols", {1, 20}, {21, 40}),
      task<CopyMultiTwice>("copy_multi2", "n symbols; the same, NEXT, the same.", source, "symbols", {1, 20}, {21, 40}),
      task<CopyRepeat>("copy_repeat", "One symbol n times; the same again.", source, "symbols", {1, 20}, {21, 40}),
      task<CopyRepeatTwice>("copy_repeat2", "One symbol n times; the same 2n times.", source, "symbols", {1, 20},
                            {21, 40}),
      task<CopyReplace>("copy_replace", "MAP c e IN c n times; e n times.", source, "symbols", {1, 20}, {21, 40}),
      task<Reverse>("reverse", "n symbols; the same backwards.", source, "symbols", {1, 20}, {21, 40}),
      task<ReverseTwice>("reverse2", "n symbols; backwards, NEXT, backwards.", source, "symbols", {1, 20}, {21, 40}),
      task<ReverseCopy>("reverse_copy", "n symbols; backwards, NEXT, the same.", source, "symbols", {1, 20}, {21, 40}),
      task<SortSingle>("sort_single", "n symbols of an ordered alphabet; the same sorted.", source, "symbols", {2, 8},
                       {9, 16}),
      task<SortMulti>("sort_multi", "n numbers, digit by digit, with commas; the same sorted.", source, "numbers",
                      {2, 8}, {9, 16}),
      task<Parity>("parity", "b1, b2, …; Yes when the number of ones is even, else No.", source, "bits", {1, 8},
                   {9, 16}),
      task<SumMod>("sum_mod", "d1 + d2 + …, digits 1 to 9; the sum modulo 10.", source, "digits", {2, 8}, {9, 16}),
      task<Polynomial>("poly",
                       "x ; c * x ** e + …, coefficients -3 to 3, degrees 0 to 3, x in -2 to 2; the value modulo 10.",
                       source, "terms", {1, 8}, {9, 16}),
      task<Lego>("lego", "a = + 1 ; b = - a ; … ? c, c in the second half of the chain; +1 or -1.", source, "variables",
                 {4, 8}, {9, 16}),
  };
}

}  // namespace pe::data
