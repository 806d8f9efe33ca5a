// Addition with index hints: every digit stands behind the letter of its place, from the least significant on.
#include "data/tasks/kit.h"

namespace pe::data {

namespace {

constexpr std::int32_t kPlus = 10;

/// Of digit strings, most significant first.
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

constexpr std::int32_t kLetters = 11;

std::vector<std::string> letters() {
  std::vector<std::string> names;
  for (char c = 'a'; c <= 'z' + 1; ++c) names.emplace_back(c <= 'z' ? std::string(1, c) : "aa");
  return names;
}

Symbols hinted(const Symbols& digits) {
  Symbols all;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    all.push_back(kLetters + static_cast<std::int32_t>(digits.size() - 1 - i));
    all.push_back(digits[i]);
  }
  return all;
}

Symbols plain(const Symbols& hinted) {
  Symbols digits;
  for (std::size_t i = 1; i < hinted.size(); i += 2) digits.push_back(hinted[i]);
  return digits;
}

class AddIndexed final : public QuestionTask {
 public:
  std::vector<std::string> symbols() const override { return numbered("", 10) + std::vector<std::string>{"+"} + letters(); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 10); }
  /// Of the ordered pairs of digit counts, each as often as any other, 2n - 1 have n as the larger one.
  double weight(std::int64_t n) const override { return n >= 1 && n <= 26 ? static_cast<double>(2 * n - 1) : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    std::int64_t a = n, b = n;
    const std::int64_t pair = draw(random, 2 * n - 1);
    if (pair < n - 1) a = pair + 1;
    else if (pair > n - 1) b = pair - n + 1;
    Symbols input = hinted(draw_digits(random, a));
    input.push_back(kPlus);
    append(input, hinted(draw_digits(random, b)));
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    const auto plus = std::find(input.begin(), input.end(), kPlus);
    return hinted(sum_of(plain({input.begin(), plus}), plain({plus + 1, input.end()})));
  }
};

}  // namespace

TaskGenerator add_index_task() {
  return task<AddIndexed>({.name = "add_index",
                         .summary = "Letter digit letter digit … + …; the sum likewise. Letters name places: a is that of ones.",
                         .reference = "E 3.10",
                         .length = "digits of the longer operand",
                         .train = {1, 8},
                         .test = {9, 16}});
}

}  // namespace pe::data
