/// @file
/// Which tasks a command means: `label`, `label[axis=value,axis=value]`, `*`, `[axis=*]`, `+sel` with ancestors, `sel+`
/// with descendants; several are a union. A comma-separated list of labels for one axis is written by naming it again.
#pragma once

#include <string>
#include <vector>

#include "pipeline/file/graph.h"

namespace pe::pipeline {

/// One flag per task. No selectors at all mean every task.
/// @throws ConfigError for a selector that is malformed or matches nothing, with the existing names.
std::vector<bool> select(const Graph& graph, const std::vector<std::string>& selectors);

/// True for a task, taken apart, that one selector, without `+`, names.
/// @throws ConfigError for a selector that is malformed.
bool matches(const TaskName& task, const std::string& selector);

}  // namespace pe::pipeline
