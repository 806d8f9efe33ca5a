/// @file
/// A Hugging Face config and its tensors as a model of ours. Nothing is computed here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "encodings/rotary/rotary.h"
#include "interop/weight_files.h"
#include "model/model_config.h"
#include "support/json.h"

namespace pe::interop {

/// A parameter of ours, and where its numbers are.
struct ImportTensor {
  std::string name;                 ///< Here.
  std::string source;               ///< There; empty: zeros, a bias that the model lacks.
  std::vector<std::int64_t> shape;  ///< Here.
  bool transposed = false;          ///< There [inputs, outputs]: GPT-2's form.
  std::int64_t first = 0;           ///< Of the rows that are taken (after transposing): GPT-2 keeps q, k and v in one.
  std::int64_t rows_there = 0;      ///< All rows of the source.
  std::vector<std::int64_t> rows;   ///< Rows of each head here, by number there; empty: unchanged.
};

struct ImportPlan {
  model::ModelConfig config;  ///< complete
  std::vector<ImportTensor> tensors;
  Json rope = nullptr;       ///< rope_parameters, where positions are rotations; to be compared
  std::string architecture;  ///< model_type of the config
};

/// Classes are llama, mistral without a window, qwen2, qwen3, smollm3, gpt2, and the code of our export.
/// @param layout  of the pairs of rotated channels here. Rows are put into its order.
/// @throws ArtifactError for another class, an option that changes what is computed, a tensor that is missing, of
/// another shape or not used
ImportPlan plan_import(const Json& config, const WeightFiles& weights, encodings::PairLayout layout,
                       const std::string& where);

/// The numbers of one parameter. @throws ArtifactError
std::vector<float> imported_values(const ImportTensor& tensor, const WeightFiles& weights);

}  // namespace pe::interop
