/// @file
/// A GGUF file of architecture llama or qwen3 as a model of ours.
#pragma once

#include <filesystem>

#include "model/language_model.h"
#include "support/json.h"

namespace pe::interop {

struct GgufModel {
  model::LanguageModel model;
  Json manifest;  ///< of pe-export; null where the file has none
};

/// @throws ArtifactError; also for quantised weights, for other architectures, and where values or tensors do not fit
/// each other
GgufModel read_gguf_model(const std::filesystem::path& path);

}  // namespace pe::interop
