/// @file
/// `pe-train`: a model from its first step.
#pragma once

#include "artifact/workspace.h"
#include "training/schedule.h"
#include "training/train_config.h"

namespace pe::training {

/// Reads role "data"; writes roles "model" and "metrics", or the snapshots asked for.
void train(const TrainConfig& config, artifact::Workspace& workspace);

Schedule schedule_of(const TrainSettings& settings);

}  // namespace pe::training
