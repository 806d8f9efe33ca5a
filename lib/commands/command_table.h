/// @file
/// The commands of `pe-pipeline`: names, flags, help, and the function of each.
#pragma once

#include "cli/command_table.h"

namespace pe::commands {

const cli::CommandTable& command_table();

}  // namespace pe::commands
