#include "statistics/sequential.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>

namespace pe::statistics {
namespace {

const boost::math::normal kNormal;
constexpr double kLargestBound = 12;     // |z|; the levels beyond are below 1e-32
constexpr std::size_t kIntervals = 256;  // of Simpson's rule; even. 1e-6 in a bound

double upper_tail(double z) { return boost::math::cdf(boost::math::complement(kNormal, z)); }

/// Density of the score S(t), a Brownian motion, where no look so far passed its bound.
class Surviving {
 public:
  /// P(|S(t)| >= bound) at a look that is `step` of the information later.
  double crossing(double step, double bound) const {
    const double sd = std::sqrt(step);
    if (at_.empty()) return 2 * upper_tail(bound / sd);
    double sum = 0;
    for (std::size_t i = 0; i < at_.size(); ++i)
      sum += weighted_[i] * (upper_tail((bound - at_[i]) / sd) + upper_tail((bound + at_[i]) / sd));
    return sum;
  }

  /// Continues with the studies inside ±bound.
  void move(double step, double bound) {
    const double sd = std::sqrt(step), width = 2 * bound / kIntervals;
    std::vector<double> at, weighted;
    for (std::size_t i = 0; i <= kIntervals; ++i) {
      at.push_back(-bound + static_cast<double>(i) * width);
      double density = 0;
      if (at_.empty()) density = boost::math::pdf(kNormal, at[i] / sd) / sd;
      for (std::size_t j = 0; j < at_.size(); ++j)
        density += weighted_[j] * boost::math::pdf(kNormal, (at[i] - at_[j]) / sd) / sd;
      const double simpson = i == 0 || i == kIntervals ? 1 : i % 2 ? 4 : 2;
      weighted.push_back(density * simpson * width / 3);
    }
    at_ = std::move(at);
    weighted_ = std::move(weighted);
  }

 private:
  std::vector<double> at_, weighted_;  // places, and densities with their weights in an integral
};

}  // namespace

double spent_alpha(double t, double alpha) {
  if (t >= 1) return alpha;
  return 4 * upper_tail(boost::math::quantile(boost::math::complement(kNormal, alpha / 4)) / std::sqrt(t));
}

std::vector<double> look_bounds(const std::vector<double>& shares, double alpha) {
  std::vector<double> bounds;
  Surviving surviving;
  double before = 0, spent = 0;
  for (const double share : shares) {
    const double now = spent_alpha(share, alpha), part = now - spent, step = share - before, root = std::sqrt(share);
    double low = 0, high = kLargestBound;
    while (high - low > 1e-10) {
      const double middle = (low + high) / 2;
      (surviving.crossing(step, middle * root) > part ? low : high) = middle;
    }
    bounds.push_back((low + high) / 2);
    surviving.move(step, bounds.back() * root);
    before = share;
    spent = now;
  }
  return bounds;
}

std::size_t Looks::count(std::size_t seeds) const { return seeds < from ? 0 : std::min(seeds, most) - from + 1; }

double Looks::spent(std::size_t seeds, double alpha) const {
  return seeds < from ? 0 : spent_alpha(static_cast<double>(seeds) / static_cast<double>(most), alpha);
}

double Looks::level(std::size_t seeds, double alpha) const { return seeds < from ? 0 : levels(seeds, alpha).back(); }

std::vector<double> Looks::levels(std::size_t seeds, double alpha) const {
  std::vector<double> shares;
  for (std::size_t at = from; at <= std::min(seeds, most); ++at)
    shares.push_back(static_cast<double>(at) / static_cast<double>(most));
  std::vector<double> levels = look_bounds(shares, alpha);
  for (double& level : levels) level = 2 * upper_tail(level);
  return levels;
}

}  // namespace pe::statistics
