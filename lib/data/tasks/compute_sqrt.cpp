// Context-sensitive: the square root of a binary number, rounded down.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class ComputeSqrt final : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 2); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols drawn;
    do {
      drawn = draw_many(random, n, 2);
    } while (std::find(drawn.begin(), drawn.end(), 1) == drawn.end());
    return drawn;
  }
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

}  // namespace

TaskGenerator compute_sqrt_task() {
  return task<ComputeSqrt>(
      {.name = "compute_sqrt",
       .summary = "A binary number, high bit first; its square root rounded down, in half as many bits.",
       .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
       .length = "symbols of input",
       .train = {1, 40},
       .test = {41, 500}});
}

}  // namespace pe::data
