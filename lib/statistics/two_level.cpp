#include "statistics/two_level.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/tools/toms748_solve.hpp>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>

#include "support/missing.h"

namespace pe::statistics {
namespace {

using support::kMissing;

namespace math = boost::math;
/// Without long doubles: five times as fast, and exact to 14 digits.
using Fast = math::policies::policy<math::policies::promote_double<false>>;

/// Where a monotonous function that changes its sign between `low` and `high` is zero, to 12 digits.
template <typename Function>
double root_between(const Function& function, double low, double high) {
  const double at_low = function(low), at_high = function(high);
  if (at_low == 0 || at_high == 0 || (at_low < 0) == (at_high < 0))
    return std::abs(at_low) < std::abs(at_high) ? low : high;
  std::uintmax_t steps = 100;
  const auto [from, to] =
      math::tools::toms748_solve(function, low, high, at_low, at_high, math::tools::eps_tolerance<double>(40), steps);
  return (from + to) / 2;
}

/// Variances of an estimate with their degrees of freedom; a part that is not there has variance 0.
struct Parts {
  double first = 0, second = 0;
  double first_freedom = 1, second_freedom = 1;
  double sum() const { return first + second; }
};

double t_critical(double freedom, double alpha) {
  return math::quantile(math::complement(math::students_t_distribution<double, Fast>(freedom), alpha / 2));
}

double critical(const Parts& parts, double alpha) {
  double weighted = 0;
  if (parts.first > 0) weighted += parts.first * t_critical(parts.first_freedom, alpha);
  if (parts.second > 0) weighted += parts.second * t_critical(parts.second_freedom, alpha);
  return weighted / parts.sum();
}

double t_tail(double freedom, double t) {
  return 2 * math::cdf(math::complement(math::students_t_distribution<double, Fast>(freedom), t));
}

/// The level at which the critical value is |estimate| / error.
double p_of(const Parts& parts, double estimate) {
  if (!(parts.sum() > 0)) return estimate == 0 ? 1 : 0;
  const double t = std::abs(estimate) / std::sqrt(parts.sum());
  if (t == 0) return 1;
  if (parts.second == 0) return t_tail(parts.first_freedom, t);
  if (parts.first == 0) return t_tail(parts.second_freedom, t);
  // It lies between the levels of the two t distributions; found in the logarithm.
  const double one = t_tail(parts.first_freedom, t), other = t_tail(parts.second_freedom, t);
  const double low = std::log(std::max(std::min(one, other), 1e-290)), high = std::log(std::max({one, other, 1e-290}));
  return std::exp(root_between([&](double level) { return critical(parts, std::exp(level)) - t; }, low, high));
}

double squares_around(const std::vector<double>& values, double centre) {
  double sum = 0;
  for (const double value : values) sum += (value - centre) * (value - centre);
  return sum;
}

double skewness(const std::vector<double>& values, double centre) {
  const double n = static_cast<double>(values.size()), squares = squares_around(values, centre);
  if (values.size() < 3 || !(squares > 1e-28 * n * centre * centre)) return 0;
  double cubes = 0;
  for (const double value : values) cubes += std::pow(value - centre, 3);
  return cubes / n / std::pow(squares / n, 1.5);
}

/// V₁ and V₂ from the mean squares of the crossed layout.
Parts parts_of(const std::vector<std::vector<double>>& values, const std::vector<double>& seed_means,
               const std::vector<double>& item_means, double mean) {
  const double seeds = static_cast<double>(seed_means.size()), items = static_cast<double>(item_means.size());
  Parts parts{.first_freedom = seeds - 1, .second_freedom = items - 1};
  const bool has_seeds = seed_means.size() >= kSeedsForNoise, has_items = item_means.size() >= 2;
  if (has_seeds) parts.first = squares_around(seed_means, mean) / (seeds - 1) / seeds;
  if (!has_items) return parts;
  const double of_items = squares_around(item_means, mean) / (items - 1) / items;
  if (!has_seeds) {
    parts.second = of_items;
    return parts;
  }
  // The rest is in both parts and counts once.
  double rest = 0;
  for (std::size_t s = 0; s < values.size(); ++s) {
    for (std::size_t i = 0; i < item_means.size(); ++i) {
      const double left = values[s][i] - seed_means[s] - item_means[i] + mean;
      rest += left * left;
    }
  }
  rest /= (seeds - 1) * (items - 1);
  // Seeds vary by the rest at least; means that are closer together are so by luck. Many values measure the rest, but
  // seeds that vary a little more are often below it too: 3 (S − 1) degrees keep p right in tests of several arms.
  if (parts.first < rest / (seeds * items)) {
    parts.first = rest / (seeds * items);
    parts.first_freedom = (seeds - 1) * std::min(items - 1, 3.0);
  }
  parts.second = std::max(0.0, of_items - rest / (seeds * items));
  // Where every seed gave the same, differences of rounding are no noise.
  if (parts.first < 1e-28 * mean * mean) parts.first = 0;
  if (parts.second < 1e-28 * mean * mean) parts.second = 0;
  return parts;
}

}  // namespace

double TwoLevel::error() const {
  const double sum =
      (std::isfinite(seed_variance) ? seed_variance : 0) + (std::isfinite(item_variance) ? item_variance : 0);
  return std::sqrt(sum);
}

bool TwoLevel::few() const {
  if (items < kFewItems) return true;
  const double sum = error() * error();
  const double diluted = sum > 0 && std::isfinite(item_variance) ? skew * std::pow(item_variance / sum, 1.5) : 0;
  return static_cast<double>(items) < 25 * diluted * diluted;
}

Interval TwoLevel::interval_at(double alpha) const {
  if (!std::isfinite(interval.low)) return interval;
  const Parts parts{.first = std::isfinite(seed_variance) ? seed_variance : 0,
                    .second = std::isfinite(item_variance) ? item_variance : 0,
                    .first_freedom = std::max(1.0, seed_freedom),
                    .second_freedom = std::max(1.0, static_cast<double>(items) - 1)};
  const double half = parts.sum() > 0 ? critical(parts, alpha) * std::sqrt(parts.sum()) : 0;
  return {estimate - half, estimate + half};
}

double TwoLevel::detectable(double alpha) const {
  if (!knows_seeds()) return kMissing;
  const NoiseLevels noise{.seed = std::sqrt(seed_variance * static_cast<double>(seeds)),
                          .item = std::sqrt(item_variance * static_cast<double>(items))};
  return detectable_difference(noise, seeds, items, 0.8, alpha);
}

TwoLevel two_level(const std::vector<std::vector<double>>& values) {
  TwoLevel result{.seeds = values.size(),
                  .items = values.empty() ? 0 : values[0].size(),
                  .estimate = kMissing,
                  .seed_variance = kMissing,
                  .item_variance = kMissing,
                  .interval = {kMissing, kMissing},
                  .p = kMissing};
  if (result.items == 0) return result;
  std::vector<double> seed_means, item_means(result.items, 0);
  for (const std::vector<double>& seed : values) {
    assert(seed.size() == result.items);
    seed_means.push_back(mean_of(seed));
    for (std::size_t i = 0; i < seed.size(); ++i) item_means[i] += seed[i] / static_cast<double>(values.size());
  }
  result.estimate = mean_of(seed_means);
  const bool known = result.knows_seeds() || result.items >= 2;
  if (!known || !std::isfinite(result.estimate)) return result;
  const Parts parts = parts_of(values, seed_means, item_means, result.estimate);
  if (result.knows_seeds()) {
    result.seed_variance = parts.first;
    result.seed_freedom = parts.first_freedom;
  }
  result.item_variance = parts.second;
  result.skew = skewness(item_means, result.estimate);
  const double half = parts.sum() > 0 ? critical(parts, 0.05) * std::sqrt(parts.sum()) : 0;
  result.interval = {result.estimate - half, result.estimate + half};
  result.p = p_of(parts, result.estimate);
  return result;
}

std::vector<double> linearised(const SeedItems& items) {
  assert(items.y.size() == items.x.size());
  const double sum_x = std::accumulate(items.x.begin(), items.x.end(), 0.0);
  const double theta = std::accumulate(items.y.begin(), items.y.end(), 0.0) / sum_x;
  const double mean_x = sum_x / static_cast<double>(items.x.size());
  std::vector<double> values;
  values.reserve(items.y.size());
  for (std::size_t i = 0; i < items.y.size(); ++i) values.push_back(theta + (items.y[i] - theta * items.x[i]) / mean_x);
  return values;
}

TwoLevel two_level_ratio(const std::vector<SeedItems>& seeds) {
  std::vector<std::vector<double>> values;
  for (const SeedItems& seed : seeds) values.push_back(linearised(seed));
  return two_level(values);
}

TwoLevel two_level_difference(const std::vector<SeedItems>& a, const std::vector<SeedItems>& b) {
  assert(a.size() == b.size());
  std::vector<std::vector<double>> differences;
  for (std::size_t s = 0; s < a.size(); ++s) {
    differences.push_back(linearised(a[s]));
    const std::vector<double> other = linearised(b[s]);
    assert(other.size() == differences.back().size());
    // Rounding of two equal sums is no difference.
    for (std::size_t i = 0; i < other.size(); ++i) {
      double& value = differences.back()[i];
      value = std::abs(value - other[i]) < 1e-7 * std::abs(other[i]) ? 0 : value - other[i];
    }
  }
  return two_level(differences);
}

TwoLevel two_level_share(const std::vector<std::vector<double>>& values) {
  TwoLevel share = two_level(values);
  if (!std::isfinite(share.estimate)) return share;
  const double trials = static_cast<double>(share.items);
  const Interval least = wilson(std::clamp(share.estimate, 0.0, 1.0) * trials, trials);
  if (share.seeds == 1) share.interval = least;
  if (share.seeds == 2) share.interval = {kMissing, kMissing};
  if (share.seeds >= kSeedsForNoise) {
    share.interval = {std::max(0.0, std::min(share.interval.low, least.low)),
                      std::min(1.0, std::max(share.interval.high, least.high))};
  }
  return share;
}

namespace {

/// The one-sided bound of a median: its place among the ordered seeds, and the level that is left for each seed's
/// items.
struct SignBound {
  std::size_t place = 0;  ///< from 1; 0: the seeds are too few
  double of_items = 0;
};
/// All seeds but `place` − 1 lie on one side of the median with a chance of at most 0.8 · `level`. The rest of the
/// level is for the items: a bound that they make wrong needs one wrong seed of `place`.
SignBound sign_bound(std::size_t seeds, double level) {
  const math::binomial_distribution<double, Fast> heads(static_cast<double>(seeds), 0.5);
  SignBound bound;
  for (std::size_t place = 1; 2 * place <= seeds; ++place) {
    const double beyond = math::cdf(heads, static_cast<double>(place - 1));
    if (beyond > 0.8 * level) break;
    bound = {place, (level - beyond) / static_cast<double>(place)};
  }
  return bound;
}

}  // namespace

Interval median_interval(const std::vector<double>& scores, double alpha,
                         const std::function<Interval(std::size_t, double)>& of_seed) {
  const SignBound bound = sign_bound(scores.size(), alpha / 2);
  if (bound.place == 0) return {kMissing, kMissing};
  std::vector<double> lows, highs;
  for (std::size_t s = 0; s < scores.size(); ++s) {
    const Interval own = of_seed ? of_seed(s, 2 * bound.of_items) : Interval{scores[s], scores[s]};
    lows.push_back(own.low);
    highs.push_back(own.high);
  }
  std::sort(lows.begin(), lows.end());
  std::sort(highs.begin(), highs.end(), std::greater<>());
  return {lows[bound.place - 1], highs[bound.place - 1]};
}

std::size_t seeds_for_median(double alpha) {
  std::size_t seeds = 2;
  while (sign_bound(seeds, alpha / 2).place == 0) ++seeds;
  return seeds;
}

NoiseLevels upper_limit(const NoiseLevels& noise, std::size_t pilot_seeds) {
  if (pilot_seeds < 2) return {kMissing, noise.item};
  const double freedom = static_cast<double>(pilot_seeds) - 1;
  return {noise.seed * std::sqrt(freedom / math::quantile(math::chi_squared(freedom), 0.2)), noise.item};
}

double detectable_difference(const NoiseLevels& noise, std::size_t seeds, std::size_t items, double power,
                             double alpha) {
  if (seeds < kSeedsForNoise || items < 1 || !std::isfinite(noise.seed) || !std::isfinite(noise.item)) return kMissing;
  const double s = static_cast<double>(seeds), n = static_cast<double>(items);
  const Parts parts{.first = noise.seed * noise.seed / s,
                    .second = items < 2 ? 0 : noise.item * noise.item / n,
                    .first_freedom = s - 1,
                    .second_freedom = std::max(1.0, n - 1)};
  if (!(parts.sum() > 0)) return 0;
  const double threshold = critical(parts, alpha);
  // Satterthwaite's degrees of freedom of the variance that the estimate is divided by.
  const double freedom =
      parts.sum() * parts.sum() /
      (parts.first * parts.first / parts.first_freedom + parts.second * parts.second / parts.second_freedom);
  // The far tail is nearly 0, and its series may not converge to less.
  using Lenient = math::policies::policy<math::policies::promote_double<false>,
                                         math::policies::evaluation_error<math::policies::ignore_error>>;
  const auto surplus = [&](double standard_errors) {
    const math::non_central_t_distribution<double, Lenient> t(freedom, standard_errors);
    return math::cdf(math::complement(t, threshold)) + math::cdf(t, -threshold) - power;
  };
  double high = 2;
  while (high < 64 && surplus(high) < 0) high *= 2;
  if (surplus(high) < 0) return kMissing;  // beyond it the distribution is not known well enough
  return root_between(surplus, 0, high) * std::sqrt(parts.sum());
}

std::size_t seeds_to_detect(double difference, const NoiseLevels& noise, std::size_t items, double power,
                            std::size_t most) {
  for (std::size_t seeds = kSeedsForNoise; seeds <= most; ++seeds) {
    if (detectable_difference(noise, seeds, items, power) <= difference) return seeds;
  }
  return 0;
}

}  // namespace pe::statistics
