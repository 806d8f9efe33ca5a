/// @file
/// How steady a training was: spikes of the loss, gradients, the largest attention logit. Everything is a function of
/// the facts of each step, so that a resumed run gives the same values.
#pragma once

#include <cstdint>
#include <vector>

#include "artifact/workspace.h"

namespace pe::training {

/// Of each step of a run, logged or not.
struct StepFact {
  double loss = 0;       ///< nats per token, before the update
  double grad_norm = 0;  ///< of all gradients together, before clipping
};

/// The largest final attention logit (after scale, bias and the encoding) of one sequence, at `step` steps.
struct LogitSample {
  std::int64_t step = 0;
  double largest = 0;
};
inline constexpr std::int64_t kLogitEvery = 100;  ///< steps between samples

/// One excursion of the loss; steps closer than 16 to each other belong to one.
struct Spike {
  std::int64_t first = 0, last = 0;  ///< steps, counted from 1 as logs do
  double mass = 0;                   ///< Σ (loss − median) over its steps
};

/// A step belongs to a spike when its loss exceeds the median of the 128 steps before it by more than max(6 · 1.4826 ·
/// MAD, 0.1) nats.
/// @param steps Steps of the run, from its first.
/// @param first_step steps done before it; @param warmup steps of the run that are not judged
std::vector<Spike> spikes(const std::vector<StepFact>& steps, std::int64_t first_step, std::int64_t warmup);

/// {"spikes", "spike_mass", "spike_steps", "steps_judged", "grad_norm": {"median", "p99", "max"}, "noise_ratio" (p99 to
/// median), "clipped_share", "nonfinite_steps", "largest_logit", "loss_rise", "diverged"}: the facts that the metrics
/// artifact holds. Smoothed loss is the mean of 32 finite steps; `loss_rise` its final value less its least, and more
/// than 0.5 nats or a last loss that is not finite is `diverged`. Values that need more steps are null.
Json stability_facts(const std::vector<StepFact>& steps, const std::vector<LogitSample>& logits,
                     std::int64_t first_step, std::int64_t warmup, double clip);

}  // namespace pe::training
