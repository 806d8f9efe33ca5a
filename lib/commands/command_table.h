/// @file
/// The commands of `pe-pipeline`: names, flags, help, and what each does.
#pragma once

#include "cli/command_table.h"

namespace pe::commands {

const cli::CommandTable& command_table();

}  // namespace pe::commands
