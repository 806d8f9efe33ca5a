/// @file
/// `pe-branch-decay`: from a snapshot of the stable phase to the end of a smaller budget. Model, optimizer with its
/// moments, batch and data position come from the snapshot; the data order continues.
#pragma once

#include "artifact/workspace.h"
#include "training/train_config.h"

namespace pe::training {

/// Reads roles "data" and "init"; writes "model" and "metrics".
void branch_decay(const BranchDecayConfig& config, artifact::Workspace& workspace);

}  // namespace pe::training
