#include "evaluation/summary.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "support/missing.h"

namespace pe::evaluation {

namespace {
using support::kMissing;
}

Ratio ratio(const std::vector<double>& y, const std::vector<double>& x) {
  assert(y.size() == x.size());
  double sum_y = 0, sum_x = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    sum_y += y[i];
    sum_x += x[i];
  }
  if (!(sum_x > 0)) return {kMissing, kMissing};
  const double theta = sum_y / sum_x;
  double squares = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double residual = y[i] - theta * x[i];
    squares += residual * residual;
  }
  const double n = static_cast<double>(y.size());
  return {theta, n < 2 ? kMissing : std::sqrt(n / (n - 1) * squares) / sum_x};
}

Ratio mean(const std::vector<double>& values) { return ratio(values, std::vector<double>(values.size(), 1.0)); }

Interval wilson(double successes, double trials) {
  if (!(trials > 0)) return {0, 1};
  const double p = successes / trials;
  const double z2 = kNormal95 * kNormal95 / trials;
  const double centre = (p + z2 / 2) / (1 + z2);
  const double half = kNormal95 * std::sqrt(p * (1 - p) / trials + z2 / (4 * trials)) / (1 + z2);
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

}  // namespace pe::evaluation
