/// @file
/// What is fuzzed: readers of bytes that others write. Each takes any bytes and must end in a value or an Error.
#pragma once

#include <string_view>

namespace pe::fuzz {

void read_yaml(std::string_view bytes);           ///< strict YAML, and every node's place and rendering
void read_pipeline_file(std::string_view bytes);  ///< a pipeline file, without its stages' descriptions
void expand_pipeline(std::string_view bytes);     ///< one that the stages of the grid expand, plan keys included
void read_manifest(std::string_view bytes);       ///< a collection's manifest
void read_artifact(std::string_view bytes);       ///< an HDF5 file of any kind

}  // namespace pe::fuzz
