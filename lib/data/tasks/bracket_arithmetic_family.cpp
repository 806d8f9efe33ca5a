#include "data/tasks/bracket_arithmetic.h"

namespace pe::data {

namespace {

enum : std::int32_t { kPlus = 5, kMinus };  // the third operator is *

std::int32_t applied(std::int32_t operation, std::int32_t a, std::int32_t b) {
  return operation == kPlus ? (a + b) % 5 : operation == kMinus ? (a - b + 5) % 5 : a * b % 5;
}

}  // namespace

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

}  // namespace pe::data
