/// @file
/// Results of CPUs with other instruction sets, for commands that read results. A key has the value of `compute.isa`,
/// and `auto` is the set of this machine.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/plan/plan.h"

namespace pe::pipeline {

/// Looks for each task with `compute.isa: auto`. If the store has no result for this machine's set, the task gets the
/// value of another set whose result it has, and its readers follow. Of several sets, this machine's among them, the
/// one with which most readers have results counts; then this machine's, then the widest. Plan keys must be filled in.
/// Afterwards they belong to the new values.
/// @param fixed tasks that keep this machine's set, in the order of Graph::tasks; empty: none.
/// @returns set → number of tasks that got it.
std::map<std::string, std::size_t> use_results_of_other_cpus(Graph& graph, const StoreView& store,
                                                             const std::vector<bool>& fixed = {});

}  // namespace pe::pipeline
