/// @file
/// Factors that change the base of a logarithm: the hardware's powers and logarithms have base 2.
#pragma once

namespace pe::cuda {

inline constexpr float kLog2E = 1.4426950408889634F, kLn2 = 0.6931471805599453F;

}  // namespace pe::cuda
