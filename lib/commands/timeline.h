/// @file
/// Where the page of a run's timeline lies.
#pragma once

#include <filesystem>

#include "pipeline/orchestrator.h"

namespace pe::commands {

/// Writes `folder`/timeline.html; of no folder, the run's own: reports/<pipeline>/<run>/. @throws IoError
std::filesystem::path write_timeline(const pipeline::Timeline& timeline, const std::filesystem::path& folder = {});

}  // namespace pe::commands
