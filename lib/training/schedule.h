/// @file
/// The learning rate as a pure function of the integer step: nothing is accumulated, so a resumed run cannot differ.
/// Step s is the s-th update, from 0; a run of N steps takes steps 0 … N − 1, so the value at N is approached, not
/// used.
#pragma once

#include <cstdint>
#include <string_view>

#include "support/json.h"

namespace pe::training {

enum class ScheduleKind { kWsd, kCosine, kConstant, kLinear };
enum class DecayShape { kLinear, kCosine, kOneMinusSqrt, kExponential, kOneMinusSquare };

/// The words of configs and checkpoints.
std::string_view word_of(ScheduleKind kind);
std::string_view word_of(DecayShape shape);

/// How often an exponential decay halves the rate before its end. The rest at that point (a thousandth) is subtracted
/// throughout, so that it ends at 0 as the others do.
inline constexpr double kDecayHalvings = 10;

/// f(x): the share of the peak after the share x in [0, 1] of a decay; f(0) = 1, f(1) = 0.
double decay_factor(DecayShape shape, double x);

/// ⌈tokens / tokens_per_step⌉, at least 1.
std::int64_t horizon_steps(std::int64_t tokens, std::int64_t tokens_per_step);

/// share · steps, rounded half up. A hair (1e-9) is added, so that 0.7 · 15 = 10.499… counts as the half that was
/// meant.
std::int64_t share_of_steps(double share, std::int64_t steps);

/// The steps of a decay.
struct DecaySpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< one past the last
  std::int64_t steps() const { return end - begin; }
};

/// A decay that ends at the share `end` of `horizon` steps and takes the share `share` of that end. It begins at end ·
/// (1 − share) of the horizon, rounded once: at the step of a snapshot of that share.
DecaySpan decay_span(double end, double share, std::int64_t horizon);

struct Schedule {
  ScheduleKind kind = ScheduleKind::kWsd;
  DecayShape shape = DecayShape::kOneMinusSqrt;
  double peak = 0;
  double final_share = 0;        ///< of the peak, reached at `end`
  std::int64_t begin = 0;        ///< first step of this schedule
  std::int64_t warmup = 0;       ///< Steps: the rate is peak · (s − begin + 1) / warmup.
  std::int64_t decay_begin = 0;  ///< wsd: the last step at the peak; `end` when there is no decay
  std::int64_t end = 0;          ///< one past the last step

  double at(std::int64_t step) const;
  /// "warm-up", "stable", "decay", "cosine", "linear", "constant"; at `end` and beyond "done".
  std::string_view phase(std::int64_t step) const;
  /// True when the steps before `step` would be the same for every longer horizon.
  bool free_of_horizon(std::int64_t step) const;
};

}  // namespace pe::training
