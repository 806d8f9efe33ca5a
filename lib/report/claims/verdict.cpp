#include "report/claims/verdict.h"

#include <cmath>

namespace pe::report {

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kReproduced:
      return "reproduced";
    case Verdict::kInconclusive:
      return "inconclusive";
    case Verdict::kNotTestable:
      return "not testable";
    case Verdict::kRefuted:
      return "refuted";
  }
  return "";
}

Verdict verdict_of(const ComparisonEvidence& evidence) {
  const auto holds = [&](double effect) { return evidence.inclusive ? effect >= 0 : effect > 0; };
  // Comparisons with NaN are false: an interval that is not there excludes nothing.
  if (!evidence.enough_seeds) return Verdict::kInconclusive;
  if (holds(evidence.interval.low) && evidence.in_band) return Verdict::kReproduced;
  if (std::isfinite(evidence.refuting.high) && !holds(evidence.refuting.high)) return Verdict::kRefuted;
  return Verdict::kInconclusive;
}

}  // namespace pe::report
