// Tasks of Deletang et al. 2022 along the Chomsky hierarchy (E 3.3).
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

/// Digits below a base, any of them.
class DigitTask : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return numbered("", base_); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, base_); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override { return draw_many(random, n, base_); }

 protected:
  explicit DigitTask(std::int64_t base) : base_(base) {}

 private:
  std::int64_t base_;
};

/// Two binary numbers, low bit first with a 2 between them, and their result in the same form, a 2, zeros.
class BinaryArithmetic : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1", "2"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 3); }
  std::int32_t terminator() const override { return 2; }
  double weight(std::int64_t n) const override { return n >= 3 ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override;
  Symbols answer(const Symbols& input) const override;

 private:
  /// Low bit first; zeros behind the highest one do no harm.
  virtual Symbols combined(const Symbols& x, const Symbols& y) const = 0;
  /// How many symbols the output has for so many of input.
  virtual std::size_t output_symbols(std::size_t input) const = 0;
};

constexpr std::int32_t kJoint = 2;

/// Bits of a number from 1 to 2^bits - 1, low bit first.
Symbols binary_number(support::Xoshiro& random, std::int64_t bits) {
  Symbols drawn;
  do {
    drawn = draw_many(random, bits, 2);
  } while (std::find(drawn.begin(), drawn.end(), 1) == drawn.end());
  return drawn;
}

Symbols BinaryArithmetic::ask(support::Xoshiro& random, std::int64_t n) const {
  const std::int64_t first = draw_between(random, 1, n - 2);
  Symbols input = binary_number(random, first);
  input.push_back(kJoint);
  append(input, binary_number(random, n - 1 - first));
  return input;
}

Symbols BinaryArithmetic::answer(const Symbols& input) const {
  const auto joint = std::find(input.begin(), input.end(), kJoint);
  Symbols output = combined({input.begin(), joint}, {joint + 1, input.end()});
  while (!output.empty() && output.back() == 0) output.pop_back();
  output.push_back(terminator());
  output.resize(output_symbols(input.size()), 0);
  return output;
}

/// Fully bracketed expressions of the digits 0 to 4, and their values modulo five.
class BracketArithmetic : public ChomskyTask {
 public:
  /// Digits, operators, brackets.
  std::vector<std::string> own_symbols() const override;
  std::vector<std::int32_t> answers() const override { return ids_of(0, kModulus); }

 protected:
  /// @param operators the first two or all of + - *
  explicit BracketArithmetic(std::vector<std::string> operators) : operators_(std::move(operators)) {}

  static bool is_digit(std::int32_t symbol) { return symbol < kModulus; }
  /// Appends an expression of `length` symbols; returns its value.
  std::int32_t expression(support::Xoshiro& random, std::int64_t length, Symbols& out) const;
  /// The value of the expression that `input` begins with. @param x value of the symbol after the brackets
  std::int32_t value_of(const Symbols& input, std::int32_t x = 0) const;

 private:
  static constexpr std::int32_t kModulus = 5;
  std::int32_t open() const { return kModulus + static_cast<std::int32_t>(operators_.size()); }
  std::int32_t close() const { return open() + 1; }
  std::int32_t value_from(const Symbols& input, std::size_t& at, std::int32_t x) const;

  std::vector<std::string> operators_;
};

enum : std::int32_t { kPlus = 5, kMinus };  // the third operator is *

std::int32_t applied(std::int32_t operation, std::int32_t a, std::int32_t b) {
  return operation == kPlus ? (a + b) % 5 : operation == kMinus ? (a - b + 5) % 5 : a * b % 5;
}

std::vector<std::string> BracketArithmetic::own_symbols() const {
  return numbered("", kModulus) + operators_ + std::vector<std::string>{"(", ")"};
}

std::int32_t BracketArithmetic::expression(support::Xoshiro& random, std::int64_t length, Symbols& out) const {
  if (length == 1) {
    out.push_back(draw(random, kModulus));
    return out.back();
  }
  if (length == 2) {
    out.push_back(kMinus);
    return applied(kMinus, 0, expression(random, 1, out));
  }
  out.push_back(open());
  std::int32_t value = 0;
  if (length <= 4) {
    value = expression(random, length - 2, out);
  } else {
    const std::int64_t left = draw_between(random, 1, length - 4);
    const std::int32_t a = expression(random, left, out);
    const std::int32_t operation = kPlus + draw(random, static_cast<std::int64_t>(operators_.size()));
    out.push_back(operation);
    value = applied(operation, a, expression(random, length - 3 - left, out));
  }
  out.push_back(close());
  return value;
}

std::int32_t BracketArithmetic::value_of(const Symbols& input, std::int32_t x) const {
  std::size_t at = 0;
  return value_from(input, at, x);
}

std::int32_t BracketArithmetic::value_from(const Symbols& input, std::size_t& at, std::int32_t x) const {
  const std::int32_t first = input[at++];
  if (is_digit(first)) return first;
  if (first > close()) return x;
  if (first == kMinus) return applied(kMinus, 0, value_from(input, at, x));
  std::int32_t value = value_from(input, at, x);
  if (input[at] != close()) {
    const std::int32_t operation = input[at++];
    value = applied(operation, value, value_from(input, at, x));
  }
  ++at;  // )
  return value;
}

/// Regular: is the number of unequal neighbours odd? That is whether first and last differ.
class EvenPairs final : public DigitTask {
 public:
  EvenPairs() : DigitTask(2) {}
  Symbols answer(const Symbols& input) const override { return {input.front() != input.back() ? 1 : 0}; }
};

/// Regular: the sum modulo two.
class ParityCheck final : public DigitTask {
 public:
  ParityCheck() : DigitTask(2) {}
  Symbols answer(const Symbols& input) const override {
    return {static_cast<std::int32_t>(std::count(input.begin(), input.end(), 1) % 2)};
  }
};

/// Regular: steps on a circle of five places.
class CycleNavigation final : public DigitTask {
 public:
  CycleNavigation() : DigitTask(5) {}
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override { return draw_many(random, n, 3); }
  Symbols answer(const Symbols& input) const override {
    std::int64_t place = 0;
    for (const std::int32_t step : input) place += step - 1;
    return {static_cast<std::int32_t>((place % 5 + 5) % 5)};
  }
};

/// Regular: arithmetic without brackets modulo five. An even length is lowered by one, as in the source's code; its
/// paper says raised.
class ModularArithmetic final : public ChomskyTask {
  enum : std::int32_t { kPlus = 5, kMinus, kTimes };

 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1", "2", "3", "4", "+", "-", "*"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 5); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    if (n % 2 == 0) --n;
    Symbols input;
    for (std::int64_t i = 0; i < n; ++i) input.push_back(i % 2 == 0 ? draw(random, 5) : kPlus + draw(random, 3));
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    std::int32_t sum = 0, product = input[0], sign = 1;
    for (std::size_t i = 1; i + 1 < input.size(); i += 2) {
      if (input[i] == kTimes) {
        product = product * input[i + 1] % 5;
        continue;
      }
      sum += sign * product;
      sign = input[i] == kPlus ? 1 : -1;
      product = input[i + 1];
    }
    sum += sign * product;
    return {(sum % 5 + 5) % 5};
  }
};

/// Deterministic context-free: arithmetic with brackets modulo five.
class BracketValue final : public BracketArithmetic {
 public:
  BracketValue() : BracketArithmetic({"+", "-", "*"}) {}
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input;
    expression(random, n, input);
    return input;
  }
  Symbols answer(const Symbols& input) const override { return {value_of(input)}; }
};

/// Deterministic context-free: the digit that x stands for.
class SolveEquation final : public BracketArithmetic {
 public:
  SolveEquation() : BracketArithmetic({"+", "-"}) {}
  std::vector<std::string> own_symbols() const override {
    return BracketArithmetic::own_symbols() + std::vector<std::string>{"x", "="};
  }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    if (n < 3) return Symbols(static_cast<std::size_t>(n), 0);
    Symbols input;
    const std::int32_t value = expression(random, n - 2, input);
    std::size_t at = random.below(input.size());
    while (!is_digit(input[at])) at = (at + 1) % input.size();
    input[at] = unknown();
    append(input, {unknown() + 1, value});
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    if (input.size() < 3) return {0};
    // x occurs once under + and - alone, so exactly one digit solves the equation.
    for (std::int32_t x = 0; x < 5; ++x) {
      if (value_of(input, x) == input.back()) return {x};
    }
    assert(false);
    return {0};
  }

 private:
  /// The symbol behind the brackets.
  std::int32_t unknown() const { return static_cast<std::int32_t>(BracketArithmetic::own_symbols().size()); }
};

enum : std::int32_t { kPop = 2, kPushZero, kPushOne };

/// Deterministic context-free: a stack, and operations on it.
class StackManipulation final : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1", "2", "PUSH0", "PUSH1"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 3); }
  std::int32_t terminator() const override { return 2; }
  double weight(std::int64_t n) const override { return n >= 2 ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    const std::int64_t stack = draw_between(random, 1, n - 1);
    Symbols input = draw_many(random, stack, 2);
    for (std::int64_t i = stack; i < n; ++i) input.push_back(kPop + draw(random, 3));
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    Symbols stack;
    for (const std::int32_t symbol : input) {
      if (symbol < kPop)
        stack.push_back(symbol);
      else if (symbol != kPop)
        stack.push_back(symbol - kPushZero);
      else if (!stack.empty())
        stack.pop_back();
    }
    Symbols output(stack.rbegin(), stack.rend());
    output.push_back(2);
    output.resize(input.size() + 1, 0);
    return output;
  }
};

/// Deterministic context-free: backwards.
class ReverseString final : public DigitTask {
 public:
  ReverseString() : DigitTask(2) {}
  Symbols answer(const Symbols& input) const override { return {input.rbegin(), input.rend()}; }
};

/// Context-sensitive: addition of binary numbers, low bit first.
class BinaryAddition final : public BinaryArithmetic {
  Symbols combined(const Symbols& x, const Symbols& y) const override {
    Symbols sum;
    std::int32_t carry = 0;
    for (std::size_t i = 0; i <= std::max(x.size(), y.size()); ++i) {
      if (i < x.size()) carry += x[i];
      if (i < y.size()) carry += y[i];
      sum.push_back(carry % 2);
      carry /= 2;
    }
    return sum;
  }
  std::size_t output_symbols(std::size_t input) const override { return input + 1; }
};

/// Context-sensitive: multiplication of binary numbers, low bit first.
class BinaryMultiplication final : public BinaryArithmetic {
  Symbols combined(const Symbols& x, const Symbols& y) const override {
    Symbols product(x.size() + y.size(), 0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = 0; j < y.size(); ++j) product[i + j] += x[i] * y[j];
    }
    for (std::size_t i = 0; i + 1 < product.size(); ++i) {
      product[i + 1] += product[i] / 2;
      product[i] %= 2;
    }
    return product;
  }
  std::size_t output_symbols(std::size_t input) const override { return input; }
};

/// Context-sensitive: sorted.
class BucketSort final : public DigitTask {
 public:
  BucketSort() : DigitTask(5) {}
  Symbols answer(const Symbols& input) const override {
    Symbols sorted = input;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }
};

/// Context-sensitive: the square root of a binary number, rounded down.
class ComputeSqrt final : public DigitTask {
 public:
  ComputeSqrt() : DigitTask(2) {}
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override { return binary_number(random, n); }
  /// Digit by digit: two bits of the number bring one bit of the root.
  Symbols answer(const Symbols& input) const override {
    Symbols number = input;
    if (number.size() % 2 != 0) number.insert(number.begin(), 0);
    Symbols root, rest;  // both high bit first
    for (std::size_t i = 0; i < number.size(); i += 2) {
      append(rest, {number[i], number[i + 1]});
      Symbols trial = root;  // 4·root + 1
      append(trial, {0, 1});
      const bool fits = !less(rest, trial);
      if (fits) subtract(rest, trial);
      root.push_back(fits ? 1 : 0);
    }
    return root;
  }

 private:
  static std::size_t leading_zeros(const Symbols& bits) {
    return static_cast<std::size_t>(std::find(bits.begin(), bits.end(), 1) - bits.begin());
  }
  static bool less(const Symbols& a, const Symbols& b) {
    const Symbols x(a.begin() + static_cast<std::ptrdiff_t>(leading_zeros(a)), a.end());
    const Symbols y(b.begin() + static_cast<std::ptrdiff_t>(leading_zeros(b)), b.end());
    return x.size() != y.size() ? x.size() < y.size() : x < y;
  }
  /// a -= b, a not below b.
  static void subtract(Symbols& a, const Symbols& b) {
    std::int32_t borrow = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      std::int32_t& bit = a[a.size() - 1 - i];
      bit -= borrow + (i < b.size() ? b[b.size() - 1 - i] : 0);
      borrow = bit < 0 ? 1 : 0;
      bit += 2 * borrow;
    }
  }
};

/// Context-sensitive: twice.
class DuplicateString final : public DigitTask {
 public:
  DuplicateString() : DigitTask(2) {}
  Symbols answer(const Symbols& input) const override {
    Symbols twice = input;
    append(twice, input);
    return twice;
  }
};

enum : std::int32_t { kHidden = 2, kPadding };

/// Context-sensitive: the bit that one of two copies hides.
class MissingDuplicate final : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1", "?", "_"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 2); }
  double weight(std::int64_t n) const override { return n >= 2 ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input = draw_many(random, n / 2, 2);
    const Symbols copy = input;
    append(input, copy);
    input[random.below(input.size())] = kHidden;
    if (n % 2 != 0) input.push_back(kPadding);
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    const std::size_t half = input.size() / 2;
    const auto at = static_cast<std::size_t>(std::find(input.begin(), input.end(), kHidden) - input.begin());
    return {input[at < half ? at + half : at - half]};
  }
};

/// Context-sensitive: elements at odd places (counted from 0), then those at even ones, as the source's code has it;
/// its docstring shows the opposite order.
class OddsFirst final : public DigitTask {
 public:
  OddsFirst() : DigitTask(2) {}
  Symbols answer(const Symbols& input) const override {
    Symbols output;
    for (std::size_t i = 1; i < input.size(); i += 2) output.push_back(input[i]);
    for (std::size_t i = 0; i < input.size(); i += 2) output.push_back(input[i]);
    return output;
  }
};

}  // namespace

std::vector<TaskGenerator> chomsky_tasks() {
  const char* source = "Deletang et al. 2022, arXiv:2207.02098; E 3.3";
  return {
      task<EvenPairs>("even_pairs", "n bits; 1 when the number of unequal neighbours is odd.", source,
                      "symbols of input", {1, 40}, {41, 500}),
      task<ParityCheck>("parity_check", "n bits; their sum modulo 2.", source, "symbols of input", {1, 40}, {41, 500}),
      task<CycleNavigation>("cycle_nav", "n steps -1, 0, +1 (codes 0, 1, 2); the place on a circle of 5.", source,
                            "symbols of input", {1, 40}, {41, 500}),
      task<ModularArithmetic>("mod_arith_simple", "d op d op …, digits 0 to 4; the value modulo 5, * before + and -.",
                              source, "symbols of input", {1, 40}, {41, 500}),
      task<BracketValue>("mod_arith_brackets", "A bracketed expression of digits 0 to 4; its value modulo 5.", source,
                         "symbols of input", {1, 40}, {41, 500}),
      task<SolveEquation>("solve_equation",
                          "A bracketed expression of + and - with one digit hidden by x, = value modulo 5; the digit.",
                          source, "symbols of input", {1, 40}, {41, 500}),
      task<StackManipulation>("stack_manip",
                              "A stack, bottom first, and actions (2 pops); the stack top first, 2, zeros.", source,
                              "symbols of input", {2, 40}, {41, 500}),
      task<ReverseString>("reverse_string", "n bits; backwards.", source, "symbols of input", {1, 40}, {41, 500}),
      task<BinaryAddition>("binary_addition", "x 2 y, low bits first; x + y, 2, zeros.", source, "symbols of input",
                           {3, 40}, {41, 500}),
      task<BinaryMultiplication>("binary_multiplication", "x 2 y, low bits first; x times y, 2, zeros.", source,
                                 "symbols of input", {3, 40}, {41, 500}),
      task<BucketSort>("bucket_sort", "n symbols 0 to 4; sorted.", source, "symbols of input", {1, 40}, {41, 500}),
      task<ComputeSqrt>("compute_sqrt",
                        "A binary number, high bit first; its square root rounded down, in half as many bits.", source,
                        "symbols of input", {1, 40}, {41, 500}),
      task<DuplicateString>("duplicate_string", "n bits; twice.", source, "symbols of input", {1, 40}, {41, 500}),
      task<MissingDuplicate>("missing_duplicate", "A word of bits twice with one bit hidden; that bit.", source,
                             "symbols of input", {2, 40}, {41, 500}),
      task<OddsFirst>("odds_first", "n bits; those at odd places, then those at even places.", source,
                      "symbols of input", {1, 40}, {41, 500}),
  };
}

}  // namespace pe::data
