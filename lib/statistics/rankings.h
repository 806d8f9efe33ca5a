/// @file
/// Ranks of arms, and how far they depend on the protocol that scored the arms and on the seed that trained them.
#pragma once

#include <cstddef>
#include <vector>

namespace pe::statistics {

/// Kendall's τ_b of two scores of the same arms: 1 where they order all pairs alike, −1 where they reverse all. NaN
/// below two arms, or where one of them ties all.
double kendall_tau(const std::vector<double>& a, const std::vector<double>& b);

/// Pairs of arms that two scores order differently, as a share of all; a pair that one of them ties counts half. NaN
/// below two arms.
double reversed_share(const std::vector<double>& a, const std::vector<double>& b);

/// Standard deviations of the parts of value = mean + seed + item + rest, from the mean squares of the crossed layout;
/// a negative variance becomes 0. NaN below two seeds or two items.
struct NoiseParts {
  double seed = 0, item = 0, rest = 0;
};
/// @param values [seed][item]; all seeds have the same items in the same order.
NoiseParts noise_parts(const std::vector<std::vector<double>>& values);

/// How often single trainings order two arms against their means over all seeds, by the scores of each seed.
struct WrongOrder {
  double same_seed = 0;  ///< share of seeds, both arms trained with the same one
  double any_seeds = 0;  ///< share of all pairs of seeds
};
WrongOrder wrong_order(const std::vector<double>& a, const std::vector<double>& b);

/// The difference that one seed of each arm would find at 5 % with a power of 80 %, were the noise of training known
/// beforehand.
double detectable_by_one_seed(double seed_sd, double item_sd, std::size_t items);

}  // namespace pe::statistics
