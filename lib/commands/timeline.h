/// @file
/// One page that shows how a run went: style, script and data are in it, so it opens from a file, without a network.
/// Its figures and tables read without JavaScript; the chart and the list of all tasks need it.
#pragma once

#include <filesystem>
#include <string>

#include "pipeline/orchestrator.h"

namespace pe::commands {

/// HTML 5. Same input, same bytes.
std::string render_timeline(const pipeline::Timeline& timeline);

/// Writes `folder`/timeline.html; of no folder, the run's own: reports/<pipeline>/<run>/. @throws IoError
std::filesystem::path write_timeline(const pipeline::Timeline& timeline, const std::filesystem::path& folder = {});

}  // namespace pe::commands
