/// @file
/// `pe-extend`: trains a checkpoint on at a longer context, with its rotary encoding slowed by a rule (position
/// interpolation, NTK, YaRN, LongRoPE, CLEX) or with any other encoding. Steps and data order begin anew, since windows are
/// of another length; tokens go on being counted. With the checkpoint's own encoding the context may stay what it was: that
/// tunes a model on other data.
#pragma once

#include "artifact/workspace.h"
#include "training/schedule.h"
#include "training/train_config.h"

namespace pe::training {

/// Reads roles "data" and "init"; writes "model" and "metrics". `init` may be a snapshot or the end of a training, and
/// `data` another set of the same tokenizer.
void extend(const ExtendPeConfig& config, artifact::Workspace& workspace);

/// An encoding for contexts of `length`, said in full: where it is a rule over a rotary encoding, `base`, `layout` and `over`
/// that stand at their defaults are those of the checkpoint's, and a `factor` of 1 is length / trained (but for dyn_ntk,
/// which takes it from the text); where an option means the training length unless given, it is `trained`.
Json encoding_at(const Json& wanted, const Json& had, std::int64_t trained, std::int64_t length);

}  // namespace pe::training
