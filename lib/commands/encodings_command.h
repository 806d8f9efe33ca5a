/// @file
/// Output of `list encodings` and `show encoding NAME`.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"

namespace pe::commands {

int list_encodings(const cli::CommandLine& line);
/// @throws ConfigError for a name that no encoding has, with the nearest one.
int show_encoding(const cli::CommandLine& line, const std::string& name);

/// All that pe-train knows, in the order of `list encodings`. @throws support::Error when there is no pe-train.
std::vector<std::string> encoding_names();

}  // namespace pe::commands
