/// @file
/// Whether a run may go on from a checkpoint, and whether it will then give the same bytes.
#pragma once

#include <utility>

#include "support/json.h"
#include "training/run.h"

namespace pe::training {

/// What decides how the steps go, beside model, optimizer and data, which checkpoints hold anyway; the horizon only
/// where it shapes them. Another one: another run.
Json identity_of(const Run& run);

/// On what the bits of a step hang, beside config and data. Another one: the same run, but not the same bytes.
Json fingerprint_of(const Run& run);

/// What two objects have that the other has not, or has otherwise.
std::pair<Json, Json> differences(const Json& a, const Json& b);

}  // namespace pe::training
