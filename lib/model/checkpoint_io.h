/// @file
/// Models in and out of `artifact::Checkpoint`.
#pragma once

#include <filesystem>

#include "artifact/checkpoint.h"
#include "model/language_model.h"

namespace pe::model {

/// Puts weights, model config and encoding into `checkpoint`, which keeps what else it holds. The tensors are copied.
void store(const LanguageModel& model, artifact::Checkpoint& checkpoint);

/// The model of a checkpoint, its weights loaded.
/// @throws ArtifactError with file and both values when a tensor is missing, surplus or of another shape.
LanguageModel load(const artifact::Checkpoint& checkpoint, const std::filesystem::path& file,
                   at::Device device = at::kCPU, at::ScalarType compute = at::kFloat);

/// Copies the weights of `checkpoint` into `model`, whose shape must be that of the checkpoint.
/// `encoding_differs`: leaves the encoding's own parameters alone (an encoding was dropped or changed).
void load_weights(const LanguageModel& model, const artifact::Checkpoint& checkpoint, const std::filesystem::path& file,
                  bool encoding_differs = false);

}  // namespace pe::model
