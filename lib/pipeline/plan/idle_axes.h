/// @file
/// Axes that change nothing: a seed that a training does not read gives copies of one model.
#pragma once

#include <string>
#include <vector>

#include "pipeline/file/graph.h"

namespace pe::pipeline {

/// A sentence for each axis along which all tasks of a stage are the same work, for the first such stage. The plan keys
/// must be there.
std::vector<std::string> idle_axes(const Graph& graph);

}  // namespace pe::pipeline
