#include "evaluation/probes/rotated_angles.h"

#include <cmath>
#include <numbers>

namespace pe::evaluation {

PairAngles pair_angles(double trained_theta, std::int64_t trained, double theta, std::int64_t length) {
  constexpr double kTurn = 2 * std::numbers::pi;
  const double reach = std::abs(trained_theta) * static_cast<double>(trained - 1);
  PairAngles angles{reach / kTurn, std::abs(theta) * static_cast<double>(length - 1) / kTurn, 0};
  // Training saw angles up to `reach`, a step apart. Angles less than half a step beyond count as seen.
  const double seen = reach + std::abs(trained_theta) / 2;
  if (seen >= kTurn || theta == 0) return angles;
  std::int64_t unseen = 0;
  for (std::int64_t d = 0; d < length; ++d) {
    if (std::fmod(std::abs(theta) * static_cast<double>(d), kTurn) > seen) ++unseen;
  }
  angles.unseen = static_cast<double>(unseen) / static_cast<double>(length);
  return angles;
}

}  // namespace pe::evaluation
