/// @file
/// Whether a run may continue from a checkpoint, and whether it will then give the same bytes.
#pragma once

#include <utility>

#include "support/json.h"
#include "training/run.h"

namespace pe::training {

/// Settings that decide the steps, without model, optimizer and data, which checkpoints hold anyway; the horizon only
/// where it shapes them. Another identity is another run.
Json identity_of(const Run& run);

/// Everything except config and data that decides the bits of a step. Another one: the same run, but not the same
/// bytes.
Json fingerprint_of(const Run& run);

/// The fields of each object that the other lacks or has with another value.
std::pair<Json, Json> differences(const Json& a, const Json& b);

}  // namespace pe::training
