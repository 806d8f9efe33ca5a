#include "report/statistics.h"

#include <Eigen/Dense>
#include <algorithm>
#include <boost/math/distributions/non_central_t.hpp>
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

SeedPairs paired_seeds(const std::vector<double>& a, const std::vector<double>& b) {
  assert(a.size() == b.size());
  SeedPairs pairs{.seeds = a.size(), .delta = kNaN, .sd = kNaN, .interval = {kNaN, kNaN}, .p = kNaN};
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
  const double half = boost::math::quantile(t, 0.975) * error;
  pairs.interval = {pairs.delta - half, pairs.delta + half};
  if (error > 0) pairs.p = 2 * boost::math::cdf(boost::math::complement(t, std::abs(pairs.delta) / error));
  else pairs.p = pairs.delta == 0 ? 1 : 0;
  return pairs;
}

PairedDifference hierarchical_difference(const std::vector<SeedDocuments>& a, const std::vector<SeedDocuments>& b,
                                         int resamples) {
  assert(a.size() == b.size());
  PairedDifference result{.delta = kNaN, .interval = {kNaN, kNaN}, .p = kNaN};
  if (a.empty()) return result;
  const std::size_t seeds = a.size(), documents = a[0].y.size();
  const auto mean_difference = [&](const std::uint16_t* seed_counts, const std::uint16_t* document_counts) {
    double sum = 0, drawn = 0;
    for (std::size_t seed = 0; seed < seeds; ++seed) {
      const double times = seed_counts == nullptr ? 1 : seed_counts[seed];
      if (times == 0) continue;
      double theta[2];
      int arm = 0;
      for (const SeedDocuments* of : {&a[seed], &b[seed]}) {
        double y = 0, x = 0;
        for (std::size_t d = 0; d < documents; ++d) {
          const double count = document_counts == nullptr ? 1 : document_counts[d];
          if (count == 0) continue;
          y += count * of->y[d];
          x += count * of->x[d];
        }
        theta[arm++] = y / x;
      }
      sum += times * (theta[0] - theta[1]);
      drawn += times;
    }
    return sum / drawn;
  };
  result.delta = mean_difference(nullptr, nullptr);
  if (seeds < 5 || documents < 2) return result;
  std::vector<double> differences;
  std::size_t not_above = 0, not_below = 0;
  std::vector<std::uint16_t> seed_counts(seeds), document_counts(documents);
  // Seeds have a base of their own, so that as many documents as seeds do not draw alike.
  const std::uint64_t seed_base = support::kResampleBase + 1;
  for (int i = 0; i < resamples; ++i) {
    std::fill(seed_counts.begin(), seed_counts.end(), std::uint16_t{0});
    std::fill(document_counts.begin(), document_counts.end(), std::uint16_t{0});
    support::add_resample(seed_base, seeds, static_cast<std::uint64_t>(i), seed_counts.data());
    support::add_resample(support::kResampleBase, documents, static_cast<std::uint64_t>(i), document_counts.data());
    differences.push_back(mean_difference(seed_counts.data(), document_counts.data()));
    not_above += differences.back() <= 0;
    not_below += differences.back() >= 0;
  }
  result.interval = percentile_interval(std::move(differences));
  if (std::isnan(result.interval.low)) return result;
  result.p = std::min(1.0, 2 * static_cast<double>(std::min(not_above, not_below) + 1) / (resamples + 1.0));
  return result;
}

double power_of(double effect, double sd, std::size_t seeds, double alpha) {
  if (seeds < 2 || !(sd > 0)) return kNaN;
  const double n = static_cast<double>(seeds);
  const double critical = boost::math::quantile(boost::math::students_t(n - 1), 1 - alpha / 2);
  const boost::math::non_central_t t(n - 1, std::abs(effect) / sd * std::sqrt(n));
  return boost::math::cdf(boost::math::complement(t, critical)) + boost::math::cdf(t, -critical);
}

std::size_t seeds_for(double effect, double sd, double power, double alpha, std::size_t most) {
  for (std::size_t seeds = 2; seeds <= most; ++seeds) {
    if (power_of(effect, sd, seeds, alpha) >= power) return seeds;
  }
  return 0;
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kReproduced: return "reproduced";
    case Verdict::kPartly: return "partly";
    case Verdict::kNotReproduced: return "not reproduced";
    case Verdict::kNotTestable: return "not testable";
  }
  return "";
}

Verdict verdict_of(const Claim& claim) {
  if (!claim.control || claim.effects.empty()) return Verdict::kNotTestable;
  double sum = 0;
  bool every = true;
  for (const double effect : claim.effects) {
    if (std::isnan(effect)) return Verdict::kNotTestable;
    sum += effect;
    every = every && effect > 0;
  }
  const double mean = sum / static_cast<double>(claim.effects.size());
  if (!(mean > 0)) return Verdict::kNotReproduced;
  const bool in_band = !claim.band || (mean >= claim.band->low && mean <= claim.band->high);
  // An interval that is not there (too few seeds or documents) excludes nothing.
  return every && claim.interval.low > 0 && in_band ? Verdict::kReproduced : Verdict::kPartly;
}

std::vector<double> mean_reciprocal_ranks(const std::vector<std::vector<double>>& scores) {
  if (scores.empty()) return {};
  std::vector<double> sums(scores[0].size(), 0);
  for (const std::vector<double>& row : scores) {
    assert(row.size() == sums.size());
    const auto better = [](double x, double y) { return std::isnan(y) ? !std::isnan(x) : x > y; };
    for (std::size_t method = 0; method < row.size(); ++method) {
      std::size_t above = 0, tied = 0;
      for (const double other : row) {
        above += better(other, row[method]);
        tied += !better(other, row[method]) && !better(row[method], other);
      }
      double shared = 0;
      for (std::size_t rank = above + 1; rank <= above + tied; ++rank) shared += 1 / static_cast<double>(rank);
      sums[method] += shared / static_cast<double>(tied);
    }
  }
  for (double& sum : sums) sum /= static_cast<double>(scores.size());
  return sums;
}

double normalised_score(double score, double chance) { return chance < 1 ? (score - chance) / (1 - chance) : kNaN; }

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
