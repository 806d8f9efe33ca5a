/// @file
/// Checks made once before the first start of a run. @throws ConfigError naming tasks and, where a field is wrong, its
/// line.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>

#include "pipeline/file/graph.h"
#include "pipeline/plan/capacity.h"
#include "pipeline/plan/plan.h"

namespace pe::pipeline {

/// No task that is to run asks for more than there is. `only`: by task, whether this process may run it; empty: all
void refuse_impossible(const Graph& graph, const Plan& plan, const Capacity& capacity,
                       const std::vector<bool>& only = {});

constexpr double kCheckPatienceS = 60;

/// Each stage reads all its new configs (`--check`), once, accepts each and rejects none. It may take `patience_s` and
/// a tenth of a second for each config, and is then killed with its children.
/// @param stop  asked meanwhile: above 0, the rest is left out
void check_configs(const Graph& graph, const Plan& plan, double patience_s = kCheckPatienceS,
                   const std::function<int()>& stop = {});

/// The same for a plan, which starts nothing else: at most `most` configs of each program, spread over its tasks. A
/// choice that was accepted once is remembered in the store's memo/ and is not asked for again.
void check_some_configs(const Graph& graph, const Plan& plan, const std::filesystem::path& store,
                        std::size_t most = 100);

}  // namespace pe::pipeline
