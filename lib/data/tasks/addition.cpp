// Sums of two numbers: the tasks draw the same operands and differ in how they write digits down (E 3.2, E 3.10).
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class Addition : public QuestionTask {
 public:
  std::vector<std::string> symbols() const override;  ///< ten digits and +
  std::vector<std::int32_t> answers() const override { return ids_of(0, 10); }
  /// All ordered pairs of digit counts are equally frequent; 2n - 1 of them have n as the larger one.
  double weight(std::int64_t n) const override { return n >= 1 ? static_cast<double>(2 * n - 1) : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override;
  Symbols answer(const Symbols& input) const override;

 private:
  /// A number, most significant digit first, as the task writes it where numbers may have `places` digits.
  virtual Symbols written(Symbols digits, std::int64_t places) const = 0;
  /// The number that is written so: zeros in front do no harm.
  virtual Symbols read(Symbols written) const { return written; }
};

constexpr std::int32_t kPlusSign = 10;

/// Sum of digit strings, most significant digit first.
Symbols sum_of(const Symbols& a, const Symbols& b) {
  Symbols sum;
  std::int32_t carry = 0;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()) || carry > 0; ++i) {
    if (i < a.size()) carry += a[a.size() - 1 - i];
    if (i < b.size()) carry += b[b.size() - 1 - i];
    sum.push_back(carry % 10);
    carry /= 10;
  }
  return {sum.rbegin(), sum.rend()};
}

std::vector<std::string> Addition::symbols() const { return numbered("", 10) + std::vector<std::string>{"+"}; }

Symbols Addition::ask(support::Xoshiro& random, std::int64_t n) const {
  std::int64_t a = n, b = n;
  const std::int64_t pair = draw(random, 2 * n - 1);
  if (pair < n - 1)
    a = pair + 1;
  else if (pair > n - 1)
    b = pair - n + 1;
  Symbols input = written(draw_digits(random, a), n);
  input.push_back(kPlusSign);
  append(input, written(draw_digits(random, b), n));
  return input;
}

Symbols Addition::answer(const Symbols& input) const {
  const auto plus = std::find(input.begin(), input.end(), kPlusSign);
  const Symbols a = read({input.begin(), plus}), b = read({plus + 1, input.end()});
  return written(sum_of(a, b), static_cast<std::int64_t>(std::max(a.size(), b.size())) + 1);
}

/// Addition, most significant digit first.
class Add final : public Addition {
  Symbols written(Symbols digits, std::int64_t) const override { return digits; }
};

/// Addition, least significant digit first.
class ReversedAddition final : public Addition {
  Symbols written(Symbols digits, std::int64_t) const override { return read(std::move(digits)); }
  Symbols read(Symbols written) const override { return {written.rbegin(), written.rend()}; }
};

/// Addition of operands padded with zeros to the same number of digits.
class PaddedAddition final : public Addition {
  Symbols written(Symbols digits, std::int64_t places) const override {
    digits.insert(digits.begin(), static_cast<std::size_t>(places) - digits.size(), 0);
    return digits;
  }
};

constexpr std::int32_t kLetters = 11;

/// Addition with index hints: every digit follows the letter of its place, from the least significant on.
class IndexedAddition final : public Addition {
 public:
  std::vector<std::string> symbols() const override {
    return Addition::symbols() + letters() + std::vector<std::string>{"aa"};
  }
  double weight(std::int64_t n) const override { return n <= 26 ? Addition::weight(n) : 0; }

 private:
  Symbols written(Symbols digits, std::int64_t) const override {
    Symbols all;
    for (std::size_t i = 0; i < digits.size(); ++i) {
      all.push_back(kLetters + static_cast<std::int32_t>(digits.size() - 1 - i));
      all.push_back(digits[i]);
    }
    return all;
  }
  Symbols read(Symbols written) const override {
    Symbols digits;
    for (std::size_t i = 1; i < written.size(); i += 2) digits.push_back(written[i]);
    return digits;
  }
};

}  // namespace

std::vector<TaskGenerator> addition_tasks() {
  const char* source = "E 3.10";
  return {
      task<Add>("add", "Digits + digits; the digits of the sum.", "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                "digits of the longer operand", {1, 8}, {9, 16}),
      task<ReversedAddition>("add_rev", "Digits + digits and their sum, all with the least significant digit first.",
                             source, "digits of the longer operand", {1, 8}, {9, 16}),
      task<PaddedAddition>("add_pad", "Digits + digits, padded with zeros to n; the sum, padded to n + 1.", source,
                           "digits of the longer operand", {1, 8}, {9, 16}),
      task<IndexedAddition>(
          "add_index",
          "Letter digit letter digit … + …, and the sum in the same form. Letters name places: a is the place of ones.",
          source, "digits of the longer operand", {1, 8}, {9, 16}),
  };
}

}  // namespace pe::data
