/// @file
/// Tests that are repeated while a study grows. Looks at 3, 4, 5, … seeds would find a difference too often by chance.
/// Each look therefore spends a part of the error that the whole study may make (K. K. G. Lan and D. L. DeMets,
/// Biometrika 70, 1983). It is two-sided, with α*(t) = 4 − 4Φ(z/√t) and z = Φ⁻¹(1 − α/4), which resembles O'Brien and
/// Fleming's bounds. Here t is the share of the most seeds that a study may have.
#pragma once

#include <cstddef>
#include <vector>

namespace pe::statistics {

/// α*(t) for 0 < t <= 1; `alpha` itself from 1 on.
double spent_alpha(double t, double alpha);

/// Critical values of |z| at each look, so that a study without effect passes one of them with probability α*(last t).
/// @param shares of the information, ascending in (0, 1].
std::vector<double> look_bounds(const std::vector<double>& shares, double alpha);

/// A study that begins with `from` seeds and adds one at a time, up to `most`.
struct Looks {
  std::size_t from = 3, most = 3;

  /// Looks up to this many seeds; 0 below `from`.
  std::size_t count(std::size_t seeds) const;
  /// α*(t) of the look with this many seeds; 0 below `from`.
  double spent(std::size_t seeds, double alpha) const;
  /// Level of the two-sided test at this many seeds: P(|Z| > bound). 0 below `from`: nothing can be shown.
  double level(std::size_t seeds, double alpha) const;
  /// The levels of all looks up to this many seeds, for the work of the last one.
  std::vector<double> levels(std::size_t seeds, double alpha) const;
};

}  // namespace pe::statistics
