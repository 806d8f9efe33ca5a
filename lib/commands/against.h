/// @file
/// The earlier side of `explain --against`.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/command_line.h"
#include "commands/planned.h"
#include "pipeline/orchestrator.h"

namespace pe::commands {

/// The earlier side of each of `tasks`: in a run (its id, or the beginning of it), a result (the beginning of its key)
/// or a pipeline file. FILE@REV is a pipeline file at a revision of git, and @REV the same file. Tasks that it lacks
/// are left out.
/// @throws ConfigError when none of these exists, with the newest runs.
pipeline::Against find_against(const cli::CommandLine& line, const PlannedPipeline& planned,
                               const std::vector<std::size_t>& tasks);

}  // namespace pe::commands
