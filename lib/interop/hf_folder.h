/// @file
/// Models in Hugging Face folders become models of ours, and manifests state numbers that a model computes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "encodings/rotary/rotary.h"
#include "model/language_model.h"
#include "support/json.h"

namespace pe::interop {

inline constexpr const char* kManifestFile = "pe_pipeline_manifest.json";

struct HfModel {
  model::LanguageModel model;
  std::string architecture;  ///< model_type
  std::size_t tensors = 0;   ///< that were read
  Json config;               ///< config.json
};

/// Reads config.json and the weights. The frequencies of our encoding are compared with the config's.
/// @throws ArtifactError
HfModel read_hf_model(const std::filesystem::path& folder, encodings::PairLayout layout = encodings::PairLayout::kHalf);

struct ImportPlan;
class WeightFiles;
/// The same for a plan. @throws ArtifactError where a parameter has no tensor, or frequencies differ from the plan's
model::LanguageModel model_of_plan(const ImportPlan& plan, const WeightFiles& weights, const std::string& where);

/// A short English text with newlines, runs of spaces, numbers and accents, by which models are compared.
std::string golden_text();

/// Natural logarithms of the probability of each id after the first, and the most probable ids behind the last.
struct GoldenRun {
  std::vector<std::int64_t> ids;
  std::vector<double> log_probabilities;
  std::vector<std::int64_t> top_ids;
  std::vector<double> top_log_probabilities;

  double mean_loss() const;  ///< nats per token
};

/// Of the first `lengths` ids each, in float32; lengths beyond the ids are left out.
std::vector<GoldenRun> golden_runs(const model::LanguageModel& model, const std::vector<std::int64_t>& ids,
                                   const std::vector<std::size_t>& lengths);
Json to_json(const GoldenRun& run);
/// @throws ArtifactError
GoldenRun golden_from_json(const Json& json, std::int64_t vocabulary, const std::string& where);

}  // namespace pe::interop
