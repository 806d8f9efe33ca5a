#pragma once

#include <limits>

namespace pe::support {

/// A number that does not exist: not measured, or not defined for the input.
inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

}  // namespace pe::support
