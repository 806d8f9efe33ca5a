/// @file
/// Exceptions of LibTorch as errors with exit codes: memory that ran out, and GPUs that failed, are no mistakes of
/// ours.
#pragma once

#include <exception>
#include <optional>

#include "support/explain.h"
#include "support/json.h"

namespace pe::kernels {

/// For StageInfo::explain. `kExitOutOfMemory`: the machine or a GPU has not enough memory; the hint is to lower
/// `compute.micro_batch`, with its value in the config. `kExitDevice`: CUDA or one of its libraries failed. Nothing for
/// any other exception.
std::optional<support::Error> explain(const std::exception& error, const Json& config = Json());

}  // namespace pe::kernels
