/// @file
/// Noise at two levels: seeds, which repeat a training, and items (documents, trials), which sample the questions.
/// Every seed answers the same items, so the two are crossed: value = mean + seed + item + rest. A mean's variance is
/// the sum of two parts, one of seeds (which holds the rest) and one of items. Its interval is estimate ± c·√(V₁ + V₂)
/// with Cochran's critical value c = (V₁·t(S−1) + V₂·t(N−1)) / (V₁ + V₂) (W. G. Cochran, Biometrics 20, 1964).
/// doc/statistics.md gives the reasons.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "statistics/estimates.h"

namespace pe::statistics {

/// From how many seeds on the noise of training is known well enough for an interval.
inline constexpr std::size_t kSeedsForNoise = 3;
/// Below so many items an interval over items is rough, and marked; skewed items need more (TwoLevel::few).
inline constexpr std::size_t kFewItems = 30;

struct TwoLevel {
  std::size_t seeds = 0, items = 0;
  double estimate = 0;       ///< Mean over seeds and items; NaN without any.
  double seed_variance = 0;  ///< V₁ of the estimate, at least rest / (seeds · items); NaN below three seeds.
  double item_variance =
      0;  ///< V₂ of the estimate; 0 where items say nothing beyond seeds; NaN below two items without seeds
  Interval interval;        ///< 95 %; over items alone below three seeds; NaN where neither level has enough.
  double seed_freedom = 0;  ///< Of V₁: S − 1, or 3 (S − 1) where the rest is its lower limit; 0 below three seeds.
  double p = 1;             ///< Two-sided, that the mean is 0; has no lower bound but 0.
  double skew = 0;          ///< Sample skewness of the items' means over seeds; 0 below three items.

  bool knows_seeds() const { return seeds >= kSeedsForNoise; }
  double error() const;  ///< √(V₁ + V₂), of the known parts
  /// Whether the items are too few for the interval: fewer than kFewItems, or than 25 · skewness² (Cochran's rule).
  /// Noise of seeds dilutes the items' skewness.
  bool few() const;
  /// The interval at level 1 − `alpha`; NaN where `interval` is.
  Interval interval_at(double alpha) const;
  /// The smallest true difference that these seeds and items find at `alpha`, two-sided, with power 80 %. NaN below
  /// three seeds.
  double detectable(double alpha = 0.05) const;
};

/// @param values [seed][item]; all seeds have the same items in the same order. One item a seed is a summary: seeds
/// alone count.
TwoLevel two_level(const std::vector<std::vector<double>>& values);

/// One seed of an arm: Σ y and Σ x of each item, in the order shared by all.
struct SeedItems {
  std::vector<double> y, x;
};
/// Values of items whose mean is θ = Σ y / Σ x and whose spread equals the ratio's: θ + (y − θ·x) / mean(x).
std::vector<double> linearised(const SeedItems& items);
/// The mean over seeds of θ.
TwoLevel two_level_ratio(const std::vector<SeedItems>& seeds);
/// The mean over seeds of θ_a − θ_b, paired by seed and item.
TwoLevel two_level_difference(const std::vector<SeedItems>& a, const std::vector<SeedItems>& b);

/// A share (of exact answers) with an interval that stays in [0, 1]. With one seed it is Wilson's over its items; with
/// two none (NaN). From three on it is the interval of `two_level`, and no narrower than Wilson's with as many trials
/// as items: seeds that agree on the same items are no more items.
TwoLevel two_level_share(const std::vector<std::vector<double>>& values);

/// The interval of a score's median over all possible seeds, at level 1 − `alpha`, by the sign test. It goes from the
/// k-th lowest low to the k-th highest high of the seeds' intervals over items. Seeds often learn a task or do not, and
/// a t interval over such seeds misses the truth in half of the cases. This interval holds for any distribution.
/// @param of_seed interval of a seed's score over items, at level 1 − the second argument; empty: scores without noise
/// of items
/// @return NaN below `seeds_for_median`
Interval median_interval(const std::vector<double>& scores, double alpha,
                         const std::function<Interval(std::size_t, double)>& of_seed = {});
/// The fewest seeds with such an interval: 5 at 90 %, 6 at 95 %.
std::size_t seeds_for_median(double alpha);

/// How noisy a difference is: standard deviations of one seed's and of one item's difference.
struct NoiseLevels {
  double seed = 0, item = 0;
};
/// The same with the upper 80 % limit of the seeds' standard deviation (chi-square), for planning from a pilot of so
/// many seeds. NaN below two.
NoiseLevels upper_limit(const NoiseLevels& noise, std::size_t pilot_seeds);
/// The smallest true difference that `seeds` and `items` find at `alpha`, two-sided, with that power. NaN below three
/// seeds, and where a level is not known.
double detectable_difference(const NoiseLevels& noise, std::size_t seeds, std::size_t items, double power = 0.8,
                             double alpha = 0.05);
/// The fewest seeds that find `difference` with that power; 0 when even `most` do not.
std::size_t seeds_to_detect(double difference, const NoiseLevels& noise, std::size_t items, double power = 0.8,
                            std::size_t most = 200);

}  // namespace pe::statistics
