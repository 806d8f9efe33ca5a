#include "data/tasks/binary_arithmetic.h"

namespace pe::data {

namespace {

constexpr std::int32_t kJoint = 2;

/// Bits of a number from 1 to 2^bits - 1, low bit first.
Symbols binary_number(support::Xoshiro& random, std::int64_t bits) {
  Symbols drawn;
  do {
    drawn = draw_many(random, bits, 2);
  } while (std::find(drawn.begin(), drawn.end(), 1) == drawn.end());
  return drawn;
}

}  // namespace

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

}  // namespace pe::data
