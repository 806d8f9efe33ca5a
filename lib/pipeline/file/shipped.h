/// @file
/// The files that come with the program: configs and pipelines.
#pragma once

#include <filesystem>

namespace pe::pipeline {

/// The folder that holds `configs/` and `pipelines/` as they come with this program: `share/pe-pipeline` of an installation, the
/// clone of a build. Empty where neither is beside the program.
std::filesystem::path shipped_folder();

}  // namespace pe::pipeline
