/// @file
/// `pe-branch-decay`: from a snapshot of the stable phase to the end of a smaller budget. Model, optimizer with its
/// moments, batch and data position come from the snapshot; the data order goes on.
#pragma once

#include "artifact/workspace.h"
#include "training/schedule.h"
#include "training/train_config.h"

namespace pe::training {

/// Reads roles "data" and "init"; writes "model" and "metrics".
void branch_decay(const BranchDecayConfig& config, artifact::Workspace& workspace);

/// Where a decay begins and ends, for a trunk of `tokens_per_step`.
struct DecaySpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
DecaySpan decay_span(const DecayConfig& config, std::int64_t tokens_per_step);

}  // namespace pe::training
