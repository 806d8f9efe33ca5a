/// @file
/// What changes bits is config: the group `compute` of a stage. Here its `auto` values are resolved from the stage's
/// resources and the machine, when planning, so that what runs is what was hashed.
#pragma once

#include <cstdint>
#include <string>

#include "pipeline/graph.h"
#include "support/error.h"

namespace pe::pipeline {

/// What this machine has to give.
struct Machine {
  std::int64_t cpus = 1;          ///< that this process may use: affinity mask and cgroup quota
  std::int64_t mem_bytes = 0;     ///< the smaller of the memory and the cgroup's limit
  std::int64_t gpus = 0;          ///< visible devices
  std::string isa = "portable";   ///< "avx512", "avx2" or "portable"
};

Machine this_machine();

/// Fills `compute.device`, `threads`, `ranks`, `dtype`, `micro_batch` and `isa` where they are `auto` and the schema has
/// them. The instruction set is the best of the machine's that the field accepts.
void resolve_compute(const StageDescription& stage, const Resources& resources, const Machine& machine, Json& config);

/// Tasks that ask for more than the machine has: one message a stage, with the flag that lowers it.
support::Diagnostics check_demand(const Graph& graph, const Machine& machine);

}  // namespace pe::pipeline
