#pragma once

#include <filesystem>
#include <vector>

#include "stage/task_file.h"

namespace pe::stage {

/// Rejects an order whose outputs would destroy something: an input, another output, a device, a FIFO or a symbolic
/// link.
/// @param also_read  Files that the order was read from.
/// @throws ConfigError naming both paths, or IoError (cannot create) where an output is no regular file
void check_paths(const WorkOrder& order, const StageInfo& info, const std::vector<std::filesystem::path>& also_read);

}  // namespace pe::stage
