/// @file
/// CLEX's differential equation: how frequencies change as a text gets longer.
#pragma once

#include <cstdint>
#include <vector>

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

enum class ClexActivation { kTanh, kSilu };

struct ClexEquation {
  std::vector<double> start;  ///< z(1), logarithms of the frequencies, n
  std::vector<double> omega;  ///< logarithms of the frequencies that the network reads, n
  ClexActivation activation = ClexActivation::kTanh;
  double step = 0.01;  ///< of the fourth-order Runge–Kutta method, at most
};

/// z(t) of dz/dt = act((z + ω(t))·up)·down + dω/dt, ω_i(t) = omega_i − 2i/(2n − 2)·ln(2t − 1). The two matrices get the
/// gradients of the steps taken.
/// @param up [n,m] @param down [m,n] @return [n] float64 on the CPU
Tensor clex_log_frequencies(const ClexEquation& equation, const Tensor& up, const Tensor& down, double t);

}  // namespace pe::encodings
