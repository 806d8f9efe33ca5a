/// @file
/// The few statistics that a table of scores carries itself: the ratio estimator over documents with its standard error,
/// means over trials, Wilson intervals. Intervals across models and seeds belong to reports.
#pragma once

#include <cstdint>
#include <vector>

namespace pe::evaluation {

/// θ = Σ y / Σ x over clusters (documents), with the standard error of the linearised ratio:
/// r_d = y_d − θ·x_d, SE = sqrt(N/(N−1) · Σ r_d²) / Σ x_d. NaN for an empty sample; SE is NaN for fewer than two.
struct Ratio {
  double value = 0;
  double se = 0;
};
Ratio ratio(const std::vector<double>& y, const std::vector<double>& x);

/// Mean and its standard error (sd / sqrt(n), n − 1 in the denominator of sd). NaN as above.
Ratio mean(const std::vector<double>& values);

/// Wilson's interval for `successes` of `trials` at 95 % (z = 1.959963984540054). Successes may be fractional (means over
/// draws). [0, 1] for no trials.
struct Interval {
  double low = 0;
  double high = 1;
};
Interval wilson(double successes, double trials);

/// Perplexities above this are not numbers to compare.
constexpr double kOverflowPerplexity = 1e4;

constexpr double kNormal95 = 1.959963984540054;   ///< the 97.5 % quantile of the standard normal

}  // namespace pe::evaluation
