/// @file
/// The files that come with the program: configs and pipelines.
#pragma once

#include <filesystem>

namespace pe::pipeline {

/// The folder with the shipped `configs/` and `pipelines/`: `share/pe-pipeline` of an installation, the clone of a
/// build. Empty where neither is next to the program.
std::filesystem::path shipped_folder();

}  // namespace pe::pipeline
