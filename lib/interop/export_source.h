/// @file
/// Steps that exports of every form share: opening a model with its tokenizer, bytes of its tensors, and numbers by
/// which the export can be checked.
#pragma once

#include <string>

#include "artifact/checkpoint.h"
#include "artifact/tokenizer_record.h"
#include "interop/hf_export.h"
#include "interop/hf_export_plan.h"
#include "interop/safetensors.h"
#include "model/checkpoint_io.h"
#include "model/language_model.h"
#include "support/json.h"

namespace pe::interop {

struct ExportSource {
  artifact::CheckpointReader checkpoint;
  artifact::TokenizerRecord tokenizer;
  model::LanguageModel model;  ///< with weights that are rounded to the order's dtype
  model::StoredWeights weights;
};

/// @param round_vectors  whether norms and biases are stored in the order's dtype too
/// @throws ArtifactError where the tokenizer is not the model's. IoError where `order.out` exists.
ExportSource open_export(const ExportOrder& order, bool round_vectors);

/// A tensor of the export, to be written while model and tensor are there.
SafetensorsTensor export_tensor(const ExportTensor& tensor, const model::LanguageModel& model,
                                const std::string& dtype);

/// Log-probabilities of a fixed text at three lengths, and where the model comes from.
Json manifest_of(const ExportSource& source, const ExportPlan& plan, const ExportOrder& order);

/// @throws ArtifactError where this is no manifest
void require_manifest(const Json& manifest, const std::string& where);

/// Computes the texts of a manifest again. @return the largest difference, nats
/// @throws ArtifactError where it is above the manifest's tolerance, or this is no manifest
double compare_golden(const Json& manifest, const model::LanguageModel& model, const std::string& where);

/// "1,234 parameters, of which 0 belong to the positional encoding"
std::string parameter_text(const model::LanguageModel& model);

}  // namespace pe::interop
