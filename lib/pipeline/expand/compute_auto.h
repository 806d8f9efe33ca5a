/// @file
/// Settings that change bits are config: the group `compute` of a stage. Here its `auto` values are resolved from the
/// stage's resources and the machine, when planning, so that the hashed config is the config that runs.
#pragma once

#include <string>

#include "pipeline/file/graph.h"

namespace pe::pipeline {

/// Fills `compute.device`, `threads`, `ranks`, `dtype`, `deterministic`, `micro_batch` and `isa` where they are `auto`
/// and the schema has them. The instruction set is the best of the machine's that the field accepts; amx for bf16
/// alone.
void resolve_compute(const StageDescription& stage, const Resources& resources, const std::string& isa, Json& config);

}  // namespace pe::pipeline
