/// @file
/// Estimates, tests and verdicts. Documents are the sampling unit: their tokens stand and fall together. Intervals over
/// documents describe the test set, intervals over seeds describe training; two_level.h has both at once.
///
/// Missing is NaN in and NaN out; nothing here turns it into a zero.
#pragma once

#include <cstddef>
#include <vector>

namespace pe::report {

struct Interval {
  double low = 0;
  double high = 0;
};

/// NaN without values.
double mean_of(const std::vector<double>& values);

/// Wilson's score interval at 95 %. `successes` may be fractional (means over draws); [0, 1] without trials.
Interval wilson(double successes, double trials);

/// Results of one arm over its seeds.
struct SeedSummary {
  std::size_t seeds = 0;
  double mean = 0;        ///< NaN without seeds
  double half_width = 0;  ///< t(0.975, s−1)·sd/√s from three seeds on, else NaN: two values are no sample
};
/// Values that are not finite are left out of neither side: one of them makes the mean NaN.
SeedSummary summarise_seeds(const std::vector<double>& values);

/// θ = Σ y / Σ x over documents, with the standard error of the linearised ratio.
struct Ratio {
  double value = 0;
  double se = 0;  ///< NaN below two documents
};
Ratio ratio_of_sums(const std::vector<double>& y, const std::vector<double>& x);

/// Two arms over the seeds that both have: the effect of the arm is one number a seed.
struct SeedPairs {
  std::size_t seeds = 0;
  double delta = 0;       ///< mean of a − b over seeds; NaN without seeds
  double sd = 0;          ///< of the differences; NaN below two seeds
  Interval interval;      ///< paired t, 95 %, from three seeds on; else NaN
  double p = 1;           ///< two-sided; NaN below three seeds
};
SeedPairs paired_seeds(const std::vector<double>& a, const std::vector<double>& b);

/// Power of a paired t test, two-sided at `alpha`: the chance to find a true difference of `effect` between arms whose
/// differences scatter over seeds with standard deviation `sd`. NaN below two seeds.
double power_of(double effect, double sd, std::size_t seeds, double alpha = 0.05);

/// The fewest seeds with at least that power; 0 when even `most` are too few.
std::size_t seeds_for(double effect, double sd, double power = 0.8, double alpha = 0.05, std::size_t most = 1000);

/// Whether a published claim holds here. Words in brackets: those of verdicts elsewhere.
enum class Verdict {
  kReproduced,      ///< (supported) three seeds or more, the direction in each, the interval excludes zero, the band is met
  kPartly,          ///< (undecided) the direction holds, but not all of that
  kNotReproduced,   ///< (refuted)
  kNotTestable,     ///< the control failed, or there is nothing to test
};
const char* verdict_name(Verdict verdict);

struct Claim {
  std::vector<double> effects;      ///< of each seed, signed so that the claim says "above zero"
  double mean = 0;                  ///< of the least favourable arm over seeds
  Interval interval;                ///< of that mean
  bool inclusive = false;           ///< zero will do: a number to reach is reached when it is met
  bool control = true;              ///< the control came out as it should
  bool in_band = true;              ///< where the claim states a band: the values lie in it
  std::size_t seeds_needed = 3;     ///< for "reproduced"
};
Verdict verdict_of(const Claim& claim);

/// Mean over (task, seed) of 1/rank by score, higher scores first. Tied methods share the average of the reciprocal ranks that
/// they cover. A method without a score (NaN) is ranked behind all others, tied with those that lack one too.
/// @param scores [task and seed][method]
std::vector<double> mean_reciprocal_ranks(const std::vector<std::vector<double>>& scores);

/// (score − chance)/(1 − chance); NaN where chance is 1.
double normalised_score(double score, double chance);

/// Holm's step-down adjustment, in the order given. NaN entries stay NaN and do not count.
std::vector<double> holm(const std::vector<double>& p);

}  // namespace pe::report
