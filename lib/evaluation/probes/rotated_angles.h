/// @file
/// Which angles a pair of channels rotates by, and which of them no training has seen.
#pragma once

#include <cstdint>

namespace pe::evaluation {

/// One pair at a tested length.
struct PairAngles {
  double trained_turns = 0;  ///< of the largest distance in training, whole turns
  double turns = 0;          ///< of the largest distance in the test
  /// Share of the distances 0 .. L − 1 whose angle, modulo a turn, is out of reach of all training distances. 0 where
  /// the pair made a full turn in training, or is not rotated.
  double unseen = 0;
};

/// @param trained_theta radians a position in training, of texts of `trained` tokens; `theta` in the test, of `length`.
PairAngles pair_angles(double trained_theta, std::int64_t trained, double theta, std::int64_t length);

}  // namespace pe::evaluation
