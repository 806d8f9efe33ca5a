/// @file
/// Estimates and tests. Documents are the sampling unit: their tokens depend on each other. Intervals over documents
/// describe the test set, intervals over seeds describe training; two_level.h combines the two.
///
/// Missing is NaN in and NaN out; nothing here turns it into a zero.
#pragma once

#include <cstddef>
#include <vector>

namespace pe::statistics {

inline constexpr double kNormal95 = 1.959963984540054;  ///< the 97.5 % quantile of the standard normal

/// A perplexity above this limit is reported as an overflow, and compared with no other.
inline constexpr double kOverflowPerplexity = 1e4;

struct Interval {
  double low = 0;
  double high = 0;
};

/// NaN without values.
double mean_of(const std::vector<double>& values);
/// The middle value, or the mean of the middle two; NaN without values.
double median_of(std::vector<double> values);

/// Wilson's score interval, at 95 % unless `alpha` says otherwise. `successes` may be fractional (means over draws);
/// [0, 1] without trials.
Interval wilson(double successes, double trials, double alpha = 0.05);

/// Results of one arm over its seeds.
struct SeedSummary {
  std::size_t seeds = 0;
  double mean = 0;        ///< NaN without seeds
  double half_width = 0;  ///< t(0.975, s−1)·sd/√s from three seeds on, else NaN: two values are no sample
};
/// Values that are not finite are left out of neither side: one of them makes the mean NaN.
SeedSummary summarise_seeds(const std::vector<double>& values);

/// θ = Σ y / Σ x over clusters (documents), with the standard error of the linearised ratio:
/// r_d = y_d − θ·x_d, SE = sqrt(N/(N−1) · Σ r_d²) / Σ x_d. NaN where Σ x is not above zero.
struct Ratio {
  double value = 0;
  double se = 0;                                         ///< NaN below two documents
  double low() const { return value - kNormal95 * se; }  ///< of the normal interval at 95 %
  double high() const { return value + kNormal95 * se; }
};
Ratio ratio_of_sums(const std::vector<double>& y, const std::vector<double>& x);
/// The mean and its standard error (sd / sqrt(n), n − 1 in the denominator of sd). NaN as above.
Ratio mean_with_error(const std::vector<double>& values);

/// Two arms over the seeds that both have: the effect of the arm is one number a seed.
struct SeedPairs {
  std::size_t seeds = 0;
  double delta = 0;   ///< mean of a − b over seeds; NaN without seeds
  double sd = 0;      ///< of the differences; NaN below two seeds
  Interval interval;  ///< paired t, level 1 − alpha, from three seeds on; else NaN
};
SeedPairs paired_seeds(const std::vector<double>& a, const std::vector<double>& b, double alpha = 0.05);

/// Holm's step-down adjustment, in the order given. NaN entries stay NaN and do not count.
std::vector<double> holm(const std::vector<double>& p);

}  // namespace pe::statistics
