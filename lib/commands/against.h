/// @file
/// What `explain --against` compares tasks with.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/command_line.h"
#include "commands/planned.h"
#include "pipeline/orchestrator.h"

namespace pe::commands {

/// The earlier side of each of `tasks`: in a run (its id, or the beginning of it), a result (the beginning of its key),
/// a pipeline file, or a pipeline file as it was in git (FILE@REV; @REV is the same file). Tasks that it lacks are left
/// out.
/// @throws ConfigError when there is no such thing, with what there is.
pipeline::Against find_against(const cli::CommandLine& line, const PlannedPipeline& planned,
                               const std::vector<std::size_t>& tasks);

}  // namespace pe::commands
