#include "data/tasks/addition.h"

namespace pe::data {

namespace {

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

}  // namespace

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

}  // namespace pe::data
