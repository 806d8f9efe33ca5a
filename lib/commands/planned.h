/// @file
/// Parts that `plan` and `explain` share.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/error.h"

namespace pe::commands {

/// A pipeline, its store and the plan for the selected tasks.
struct PlannedPipeline {
  ExpandedPipeline loaded;
  pipeline::Store store;
  pipeline::Plan plan;
};
PlannedPipeline make_planned(const cli::CommandLine& line, const std::vector<std::string>& selectors);

/// "configs/train.yml:14"; a flag has no lines.
std::string place_text(const support::Place& place);

/// One task of a plan, for --json.
Json task_json(const pipeline::Graph& graph, const pipeline::Plan& plan, std::size_t task);

}  // namespace pe::commands
