#include "statistics/rankings.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "statistics/estimates.h"
#include "support/missing.h"

namespace pe::statistics {
namespace {

using support::kMissing;

int sign_of(double value) { return (value > 0) - (value < 0); }

}  // namespace

double kendall_tau(const std::vector<double>& a, const std::vector<double>& b) {
  assert(a.size() == b.size());
  double sum = 0, untied_a = 0, untied_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = i + 1; k < a.size(); ++k) {
      const int of_a = sign_of(a[i] - a[k]), of_b = sign_of(b[i] - b[k]);
      sum += of_a * of_b;
      untied_a += of_a != 0;
      untied_b += of_b != 0;
    }
  }
  return untied_a > 0 && untied_b > 0 ? sum / std::sqrt(untied_a * untied_b) : kMissing;
}

double reversed_share(const std::vector<double>& a, const std::vector<double>& b) {
  assert(a.size() == b.size());
  double reversed = 0, pairs = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = i + 1; k < a.size(); ++k, ++pairs) {
      const int of_a = sign_of(a[i] - a[k]), of_b = sign_of(b[i] - b[k]);
      if (of_a == of_b) continue;
      reversed += of_a == 0 || of_b == 0 ? 0.5 : 1;
    }
  }
  return pairs > 0 ? reversed / pairs : kMissing;
}

NoiseParts noise_parts(const std::vector<std::vector<double>>& values) {
  if (values.size() < 2 || values[0].size() < 2) return {kMissing, kMissing, kMissing};
  const double seeds = static_cast<double>(values.size()), items = static_cast<double>(values[0].size());
  std::vector<double> seed_means, item_means(values[0].size(), 0);
  for (const auto& seed : values) {
    assert(seed.size() == item_means.size());
    seed_means.push_back(mean_of(seed));
    for (std::size_t i = 0; i < seed.size(); ++i) item_means[i] += seed[i] / seeds;
  }
  const double mean = mean_of(seed_means);
  double of_seeds = 0, of_items = 0, rest = 0;
  for (const double one : seed_means) of_seeds += (one - mean) * (one - mean);
  for (const double one : item_means) of_items += (one - mean) * (one - mean);
  for (std::size_t s = 0; s < values.size(); ++s) {
    for (std::size_t i = 0; i < item_means.size(); ++i) {
      const double left = values[s][i] - seed_means[s] - item_means[i] + mean;
      rest += left * left;
    }
  }
  rest /= (seeds - 1) * (items - 1);
  return {std::sqrt(std::max(0.0, of_seeds / (seeds - 1) - rest / items)),
          std::sqrt(std::max(0.0, of_items / (items - 1) - rest / seeds)), std::sqrt(rest)};
}

WrongOrder wrong_order(const std::vector<double>& a, const std::vector<double>& b) {
  assert(a.size() == b.size() && !a.empty());
  const double all = mean_of(a) - mean_of(b);
  WrongOrder wrong;
  const auto seeds = static_cast<double>(a.size());
  for (std::size_t s = 0; s < a.size(); ++s) {
    wrong.same_seed += ((a[s] - b[s]) * all <= 0) / seeds;
    for (std::size_t other = 0; other < b.size(); ++other)
      wrong.any_seeds += ((a[s] - b[other]) * all <= 0) / (seeds * seeds);
  }
  return wrong;
}

double detectable_by_one_seed(double seed_sd, double item_sd, std::size_t items) {
  constexpr double kNormal = 1.959963984540054 + 0.8416212335729143;  // of 97.5 % and of 80 %
  return kNormal * std::sqrt(seed_sd * seed_sd + item_sd * item_sd / static_cast<double>(items));
}

}  // namespace pe::statistics
