#include "data/sources/length_histogram.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "support/text.h"

namespace pe::data {

namespace {

std::string power(std::size_t i) { return i < 63 ? support::with_commas(std::int64_t{1} << i) : "more"; }

}  // namespace

void LengthHistogram::add(std::uint64_t length) {
  ++counts_[static_cast<std::size_t>(std::bit_width(length == 0 ? 0 : length - 1))];
}

std::string LengthHistogram::bars(const char* unit) const {
  const std::uint64_t most = *std::max_element(counts_.begin(), counts_.end());
  std::string text;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] == 0) continue;
    text += fmt::format("  up to {:>13} {} {:>13}  {}\n", power(i), unit,
                        support::with_commas(static_cast<std::int64_t>(counts_[i])),
                        std::string(static_cast<std::size_t>(40 * counts_[i] / most), '#'));
  }
  return text;
}

std::string LengthHistogram::shares() const {
  std::uint64_t all = 0, so_far = 0;
  for (const std::uint64_t count : counts_) all += count;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] == 0) continue;
    so_far += counts_[i];
    parts.push_back(
        fmt::format("{} {:.1f} %", power(i), 100.0 * static_cast<double>(so_far) / static_cast<double>(all)));
  }
  return support::join(parts, ", ");
}

}  // namespace pe::data
