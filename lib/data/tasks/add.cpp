// Addition, most significant digit first.
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

class Add final : public QuestionTask {
 public:
  std::vector<std::string> symbols() const override { return numbered("", 10) + std::vector<std::string>{"+"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 10); }
  /// Of the ordered pairs of digit counts, each as often as any other, 2n - 1 have n as the larger one.
  double weight(std::int64_t n) const override { return n >= 1 ? static_cast<double>(2 * n - 1) : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    std::int64_t a = n, b = n;
    const std::int64_t pair = draw(random, 2 * n - 1);
    if (pair < n - 1) a = pair + 1;
    else if (pair > n - 1) b = pair - n + 1;
    Symbols input = draw_digits(random, a);
    input.push_back(kPlus);
    append(input, draw_digits(random, b));
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    const auto plus = std::find(input.begin(), input.end(), kPlus);
    return sum_of({input.begin(), plus}, {plus + 1, input.end()});
  }
};

}  // namespace

TaskGenerator add_task() {
  return task<Add>({.name = "add",
                  .summary = "Digits + digits; the digits of the sum.",
                  .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                  .length = "digits of the longer operand",
                  .train = {1, 8},
                  .test = {9, 16}});
}

}  // namespace pe::data
