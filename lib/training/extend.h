/// @file
/// `pe-extend`: continues the training of a checkpoint at a longer context, with its rotary encoding slowed by a rule
/// (position interpolation, NTK, YaRN, LongRoPE, CLEX) or with any other encoding. Steps and data order begin at 0,
/// since windows have another length; the count of tokens continues. With the checkpoint's own encoding the context may
/// stay the same: that tunes a model on other data.
#pragma once

#include "artifact/workspace.h"
#include "training/schedule.h"
#include "training/train_config.h"

namespace pe::training {

/// Reads roles "data" and "init"; writes "model" and "metrics". `init` may be a snapshot or the end of a training, and
/// `data` another set of the same tokenizer.
void extend(const ExtendPeConfig& config, artifact::Workspace& workspace);

}  // namespace pe::training
