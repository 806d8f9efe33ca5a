#pragma once

#include <limits>

namespace pe::support {

/// Stands for a number that there is none of: not measured, or not defined for what was given.
inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

}  // namespace pe::support
