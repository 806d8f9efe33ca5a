/// @file
/// `pe-export` to one file of llama.cpp (doc/interop.md).
#pragma once

#include <filesystem>
#include <string>

#include "interop/hf_export.h"

namespace pe::interop {

inline constexpr const char* kGgufManifest = "pe_pipeline.manifest";  ///< a value of the file, JSON

/// Writes the whole file or nothing. Matrices have the order's dtype; norms and biases are float32. Returns the words
/// for the user.
/// @throws ConfigError with the reason where llama.cpp has nothing that computes the same. ArtifactError where the
/// tokenizer is not the model's. IoError.
std::string export_to_gguf(const ExportOrder& order);

/// Reads the file back and compares what its model computes with the manifest in it. @throws ArtifactError
std::string verify_gguf(const std::filesystem::path& path);

}  // namespace pe::interop
