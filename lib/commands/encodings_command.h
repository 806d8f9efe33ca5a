/// @file
/// What `list encodings` and `show encoding NAME` print.
#pragma once

#include <string>

#include "cli/command_line.h"

namespace pe::commands {

int list_encodings(const cli::CommandLine& line);
/// @throws ConfigError for a name that no encoding has, with the nearest one.
int show_encoding(const cli::CommandLine& line, const std::string& name);

}  // namespace pe::commands
