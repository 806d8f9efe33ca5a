/// @file
/// The commands that submit pipelines to Slurm (pipeline/cluster), and the commands that its jobs call.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"

namespace pe::commands {

int submit_command(const cli::CommandLine& line);
int cancel_command(const cli::CommandLine& line);

/// The hidden `__element STORE RUN TOKEN DIGEST INDEX` and `__last STORE RUN INDEX` of the batch scripts.
int element_command(const std::vector<std::string>& arguments);
int last_command(const std::vector<std::string>& arguments);

}  // namespace pe::commands
