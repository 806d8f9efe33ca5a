#include "report/statistics.h"

#include <Eigen/Dense>
#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/resample.h"

namespace pe::report {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kNormal975 = 1.959963984540054;

}  // namespace

Interval wilson(double successes, double trials) {
  if (!(trials > 0)) return {0, 1};
  const double z2 = kNormal975 * kNormal975;
  const double share = successes / trials;
  const double centre = (share + z2 / (2 * trials)) / (1 + z2 / trials);
  const double half =
      kNormal975 * std::sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials)) / (1 + z2 / trials);
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

SeedSummary summarise_seeds(const std::vector<double>& values) {
  SeedSummary summary;
  summary.seeds = values.size();
  if (values.empty()) return {0, kNaN, kNaN};
  const double n = static_cast<double>(values.size());
  summary.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  summary.half_width = kNaN;
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
  if (!(sum_x > 0)) return {kNaN, kNaN};
  const double theta = std::accumulate(y.begin(), y.end(), 0.0) / sum_x;
  if (y.size() < 2) return {theta, kNaN};
  double squares = 0;
  for (std::size_t i = 0; i < y.size(); ++i) squares += std::pow(y[i] - theta * x[i], 2);
  const double n = static_cast<double>(y.size());
  return {theta, std::sqrt(n / (n - 1) * squares) / sum_x};
}

Bootstrap::Bootstrap(std::size_t documents, int resamples, std::uint64_t base)
    : documents_(documents), resamples_(resamples), counts_(documents * static_cast<std::size_t>(resamples)) {
  for (int b = 0; b < resamples; ++b) {
    support::add_resample(base, documents, static_cast<std::uint64_t>(b),
                          counts_.data() + static_cast<std::size_t>(b) * documents);
  }
}

std::vector<double> Bootstrap::ratios(const std::vector<double>& y, const std::vector<double>& x) const {
  assert(y.size() == documents_ && x.size() == documents_);
  using Counts = Eigen::Map<const Eigen::Matrix<std::uint16_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
  const auto columns = static_cast<Eigen::Index>(documents_);
  Eigen::MatrixXd sums(columns, 2);
  sums.col(0) = Eigen::Map<const Eigen::VectorXd>(y.data(), columns);
  sums.col(1) = Eigen::Map<const Eigen::VectorXd>(x.data(), columns);
  const Counts counts(counts_.data(), resamples_, columns);

  std::vector<double> ratios(static_cast<std::size_t>(resamples_));
  constexpr Eigen::Index kBlock = 256;  // bounds the copy of the counts in double
  for (Eigen::Index first = 0; first < resamples_; first += kBlock) {
    const Eigen::Index rows = std::min<Eigen::Index>(kBlock, resamples_ - first);
    const Eigen::MatrixXd totals = counts.middleRows(first, rows).cast<double>() * sums;
    for (Eigen::Index i = 0; i < rows; ++i) ratios[static_cast<std::size_t>(first + i)] = totals(i, 0) / totals(i, 1);
  }
  return ratios;
}

Interval percentile_interval(std::vector<double> values) {
  if (values.empty()) return {kNaN, kNaN};
  for (const double value : values) {
    if (std::isnan(value)) return {kNaN, kNaN};  // NaN has no place in an order
  }
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double rank = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(rank);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    const double part = rank - static_cast<double>(below);
    return part == 0 || values[below] == values[above] ? values[below]
                                                       : values[below] + part * (values[above] - values[below]);
  };
  return {at(0.025), at(0.975)};
}

PairedDifference paired_difference(double theta_a, double theta_b, const std::vector<double>& a,
                                   const std::vector<double>& b) {
  assert(a.size() == b.size());
  PairedDifference result;
  result.delta = theta_a - theta_b;
  std::vector<double> differences(a.size());
  std::size_t not_above = 0, not_below = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differences[i] = a[i] - b[i];
    not_above += differences[i] <= 0;
    not_below += differences[i] >= 0;
  }
  result.interval = percentile_interval(std::move(differences));
  if (std::isnan(result.interval.low)) {
    result.p = kNaN;
    return result;
  }
  const double tail = static_cast<double>(std::min(not_above, not_below) + 1);
  result.p = std::min(1.0, 2 * tail / (static_cast<double>(a.size()) + 1));
  return result;
}

std::vector<double> holm(const std::vector<double>& p) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (!std::isnan(p[i])) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return p[a] < p[b] || (p[a] == p[b] && a < b); });
  std::vector<double> adjusted(p.size(), kNaN);
  double largest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    largest = std::max(largest, static_cast<double>(order.size() - rank) * p[order[rank]]);
    adjusted[order[rank]] = std::min(1.0, largest);
  }
  return adjusted;
}

}  // namespace pe::report
