/// @file
/// `pe-drop-pe`: from a snapshot, another encoding (by default none) with a fresh cosine schedule to the horizon. The
/// control is the same schedule with the encoding kept. Model, optimizer settings, batch and data position come from
/// the snapshot; the data order continues.
#pragma once

#include "artifact/workspace.h"
#include "training/schedule.h"
#include "training/train_config.h"

namespace pe::training {

/// Reads roles "data" and "init"; writes "model" and "metrics".
void drop_pe(const DropPeConfig& config, artifact::Workspace& workspace);

/// The fresh schedule from step `begin`, whose peak is `snapshot_peak` scaled unless the config gives one.
Schedule drop_schedule(const DropConfig& config, double snapshot_peak, std::int64_t begin, std::int64_t end);

}  // namespace pe::training
