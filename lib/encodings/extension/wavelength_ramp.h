/// @file
/// Rules that look at how often a pair rotates within the training length.
#pragma once

#include <algorithm>
#include <numbers>

#include "encodings/rotary/rescaling.h"

namespace pe::encodings {

/// Turns of a pair within `length` tokens.
inline double turns_within(double theta, std::int64_t length) {
  return static_cast<double>(length) * theta / (2 * std::numbers::pi);
}

/// θ for pairs with at least `often` turns within `length`, θ/factor for pairs with at most `seldom` turns. In between
/// it is a mean weighted linearly in the turns.
inline double ramp_by_wavelength(double theta, double factor, std::int64_t length, double seldom, double often) {
  if (factor == 1) return theta;  // to the bit
  const double kept = std::clamp((turns_within(theta, length) - seldom) / (often - seldom), 0.0, 1.0);
  return (1 - kept) * theta / factor + kept * theta;
}

}  // namespace pe::encodings
