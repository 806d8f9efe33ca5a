/// @file
/// Collections of stages that do not link our library: they fill a folder, and the publisher adds the manifest.
#pragma once

#include <filesystem>

#include "artifact/kind.h"
#include "artifact/workspace.h"

namespace pe::artifact {

/// Writes `manifest.json` for the files in a folder, unless there is one. True when it did. Only a program that knows
/// that the stage has ended well may call it. A folder without a manifest is unfinished.
/// @throws ArtifactError for a file that cannot be a member (links, devices, names that are no UTF-8). IoError.
bool finish_collection(const std::filesystem::path& folder, Kind kind, const Recipe& recipe);

}  // namespace pe::artifact
