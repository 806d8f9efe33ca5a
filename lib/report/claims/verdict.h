/// @file
/// The rule that decides whether a claim holds.
#pragma once

#include <cstddef>
#include <vector>

#include "statistics/estimates.h"

namespace pe::report {

/// Whether a published claim holds here. Words in brackets: those of verdicts elsewhere.
enum class Verdict {
  kReproduced,  ///< (supported) three seeds or more, the direction in each, the interval excludes zero, the band is met
  kPartly,      ///< (undecided) the direction holds, but not all of that
  kNotReproduced,  ///< (refuted)
  kNotTestable,    ///< the control failed, or there is nothing to test
};
const char* verdict_name(Verdict verdict);

struct Claim {
  std::vector<double> effects;    ///< of each seed, signed so that the claim says "above zero"
  double mean = 0;                ///< of the least favourable arm over seeds
  statistics::Interval interval;  ///< of that mean
  bool inclusive = false;         ///< zero will do: a number to reach is reached when it is met
  bool control = true;            ///< the control came out as it should
  bool in_band = true;            ///< where the claim states a band: the values lie in it
  std::size_t seeds_needed = 3;   ///< for "reproduced"
};
Verdict verdict_of(const Claim& claim);

}  // namespace pe::report
