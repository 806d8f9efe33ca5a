#include "encodings/slopes.h"

namespace pe::encodings {

std::vector<double> alibi_slopes(std::int64_t heads) {
  const auto geometric = [](std::int64_t count) {
    std::vector<double> slopes(count);
    for (std::int64_t h = 0; h < count; ++h) {
      slopes[h] = std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(count));
    }
    return slopes;
  };
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<double> slopes = geometric(power);
  const std::vector<double> finer = geometric(2 * power);
  for (std::int64_t i = 0; static_cast<std::int64_t>(slopes.size()) < heads; i += 2) slopes.push_back(finer[i]);
  return slopes;
}

}  // namespace pe::encodings
