/// @file
/// The time that tasks need on the slots of a machine: a clock that starts them as `run` does.
#pragma once

#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/plan/capacity.h"

namespace pe::pipeline {

/// Seconds until the last of the tasks with `runs` ends. All vectors are by task. `seconds` is how long a task takes,
/// and of the tasks that can start the one with the greatest `path` starts first. A task that runs already has the time
/// that it has left, and an infinite path. Tasks that never fit are left out.
double simulate(const Graph& graph, const std::vector<bool>& runs, const std::vector<double>& seconds,
                const std::vector<double>& path, const Capacity& capacity);

}  // namespace pe::pipeline
