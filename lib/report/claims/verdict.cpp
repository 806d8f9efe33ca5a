#include "report/claims/verdict.h"

#include <cmath>

namespace pe::report {

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kReproduced:
      return "reproduced";
    case Verdict::kPartly:
      return "partly";
    case Verdict::kNotReproduced:
      return "not reproduced";
    case Verdict::kNotTestable:
      return "not testable";
  }
  return "";
}

Verdict verdict_of(const Claim& claim) {
  if (!claim.control || claim.effects.empty() || std::isnan(claim.mean)) return Verdict::kNotTestable;
  const auto holds = [&](double effect) { return claim.inclusive ? effect >= 0 : effect > 0; };
  bool every = true;
  for (const double effect : claim.effects) {
    if (std::isnan(effect)) return Verdict::kNotTestable;
    every = every && holds(effect);
  }
  if (!holds(claim.mean)) return Verdict::kNotReproduced;
  // An interval that is not there (too few seeds or documents) excludes nothing.
  const bool whole = every && holds(claim.interval.low) && claim.in_band && claim.effects.size() >= claim.seeds_needed;
  return whole ? Verdict::kReproduced : Verdict::kPartly;
}

}  // namespace pe::report
