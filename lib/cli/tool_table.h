/// @file
/// The flags of the programs that are neither stages nor pe-pipeline, in one table: the programs parse by it, and help,
/// man pages and completion read it.
#pragma once

#include <string>
#include <vector>

#include "cli/tool_flags.h"

namespace pe::cli {

const std::vector<ToolText>& tools();

/// By program name ("pe-score"); null when there is none.
const ToolText* find_tool(const std::string& program);

}  // namespace pe::cli
