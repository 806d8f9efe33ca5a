/// @file
/// Settings that change bits are config: the group `compute` of a stage. Here its `auto` values are resolved from the
/// stage's resources and the machine, when planning, so that the hashed config is the config that runs.
#pragma once

#include <string>

#include "pipeline/file/graph.h"

namespace pe::pipeline {

/// Values for `compute.isa: auto`, in the words of that field.
struct InstructionSets {
  std::string fp32;  ///< also of GPUs
  std::string bf16;  ///< for products in bf16 on a CPU
};

/// Fills `compute.device`, `threads`, `ranks`, `dtype`, `deterministic`, `micro_batch` and `isa` where they are `auto`
/// and the schema has them. The field may not accept the instruction set of `isa`; the next narrower one then counts.
/// amx is for bf16 alone.
void resolve_compute(const StageDescription& stage, const Resources& resources, const InstructionSets& isa,
                     Json& config);

}  // namespace pe::pipeline
