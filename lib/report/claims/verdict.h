/// @file
/// The rule that decides whether a claim holds.
#pragma once

#include "statistics/estimates.h"

namespace pe::report {

/// Whether a claim holds here. Each is worse than those before it.
enum class Verdict {
  kReproduced,    ///< the interval excludes the opposite of the claim
  kInconclusive,  ///< the interval contains both, or there are too few seeds for one
  kNotTestable,   ///< a control failed, both arms are at a bound, or something was not measured
  kRefuted,       ///< the interval excludes the claim
};
const char* verdict_name(Verdict verdict);

/// One comparison of a claim. Effects are signed so that the claim says "above zero".
struct ComparisonEvidence {
  statistics::Interval interval;  ///< "reproduced" if it excludes the opposite; NaN: too few seeds or items
  statistics::Interval refuting;  ///< "refuted" if it excludes the claim; wider where a claim has several comparisons
  bool inclusive = false;         ///< zero satisfies the claim: a bound is reached when it is met
  bool in_band = true;            ///< the values are in the band of the claim, if it states one
  bool enough_seeds = true;
};
Verdict verdict_of(const ComparisonEvidence& evidence);

}  // namespace pe::report
