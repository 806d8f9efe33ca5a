/// @file
/// Which run a command means.
#pragma once

#include <string>

#include "cli/command_line.h"
#include "pipeline/store/store.h"

namespace pe::commands {

/// The run whose name begins with `wanted`; of "" or "latest", the newest. @throws ConfigError with the nearest name.
std::string pick_run(const pipeline::Store& store, const std::string& wanted);

/// --run, else the word that stands where a run may, else the newest. Nothing else may stand there.
std::string take_run(const pipeline::Store& store, const cli::CommandLine& line);

}  // namespace pe::commands
