#include "statistics/estimates.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cassert>
#include <cmath>
#include <numeric>

#include "support/missing.h"

namespace pe::statistics {
namespace {

using support::kMissing;

}  // namespace

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median_of(std::vector<double> values) {
  if (std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); })) return kMissing;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  if (n == 0) return kMissing;
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Interval wilson(double successes, double trials, double alpha) {
  if (!(trials > 0)) return {0, 1};
  const double z = alpha == 0.05 ? kNormal95 : boost::math::quantile(boost::math::normal(), 1 - alpha / 2);
  const double z2 = z * z / trials;  // in this order: tables of evaluations have these bits
  const double share = successes / trials;
  const double centre = (share + z2 / 2) / (1 + z2);
  const double half = z * std::sqrt(share * (1 - share) / trials + z2 / (4 * trials)) / (1 + z2);
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

SeedSummary summarise_seeds(const std::vector<double>& values) {
  SeedSummary summary;
  summary.seeds = values.size();
  if (values.empty()) return {0, kMissing, kMissing};
  const double n = static_cast<double>(values.size());
  summary.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  summary.half_width = kMissing;
  if (values.size() < 3 || !std::isfinite(summary.mean)) return summary;
  double squares = 0;
  for (const double value : values) squares += (value - summary.mean) * (value - summary.mean);
  const double t = boost::math::quantile(boost::math::students_t(n - 1), 0.975);
  summary.half_width = t * std::sqrt(squares / (n - 1) / n);
  return summary;
}

Ratio ratio_of_sums(const std::vector<double>& y, const std::vector<double>& x) {
  assert(y.size() == x.size());
  const double sum_x = std::accumulate(x.begin(), x.end(), 0.0);
  if (!(sum_x > 0)) return {kMissing, kMissing};
  const double theta = std::accumulate(y.begin(), y.end(), 0.0) / sum_x;
  if (y.size() < 2) return {theta, kMissing};
  double squares = 0;
  for (std::size_t i = 0; i < y.size(); ++i) squares += std::pow(y[i] - theta * x[i], 2);
  const double n = static_cast<double>(y.size());
  return {theta, std::sqrt(n / (n - 1) * squares) / sum_x};
}

Ratio mean_with_error(const std::vector<double>& values) {
  return ratio_of_sums(values, std::vector<double>(values.size(), 1.0));
}

SeedPairs paired_seeds(const std::vector<double>& a, const std::vector<double>& b, double alpha) {
  assert(a.size() == b.size());
  SeedPairs pairs{.seeds = a.size(), .delta = kMissing, .sd = kMissing, .interval = {kMissing, kMissing}};
  if (a.empty()) return pairs;
  const double n = static_cast<double>(a.size());
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.size(); ++i) differences.push_back(a[i] - b[i]);
  pairs.delta = std::accumulate(differences.begin(), differences.end(), 0.0) / n;
  if (a.size() < 2 || !std::isfinite(pairs.delta)) return pairs;
  double squares = 0;
  for (const double difference : differences) squares += (difference - pairs.delta) * (difference - pairs.delta);
  pairs.sd = std::sqrt(squares / (n - 1));
  if (a.size() < 3) return pairs;
  const boost::math::students_t t(n - 1);
  const double error = pairs.sd / std::sqrt(n);
  const double half = boost::math::quantile(t, 1 - alpha / 2) * error;
  pairs.interval = {pairs.delta - half, pairs.delta + half};
  return pairs;
}

std::vector<double> holm(const std::vector<double>& p) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (!std::isnan(p[i])) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return p[a] < p[b] || (p[a] == p[b] && a < b); });
  std::vector<double> adjusted(p.size(), kMissing);
  double largest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    largest = std::max(largest, static_cast<double>(order.size() - rank) * p[order[rank]]);
    adjusted[order[rank]] = std::min(1.0, largest);
  }
  return adjusted;
}

}  // namespace pe::statistics
