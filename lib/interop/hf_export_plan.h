/// @file
/// The class of transformers for a model of ours. A stock class is chosen where one computes the same, else code that
/// is loaded with the weights. A model that has neither is refused with the reason. Nothing is written here.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/language_model.h"
#include "support/json.h"

namespace pe::interop {

/// A tensor of the exported file.
struct ExportTensor {
  std::string name;    ///< there
  std::string source;  ///< parameter here
  std::vector<std::int64_t> shape;
  /// Rows of each head in their order there, of queries and keys. Empty: unchanged.
  std::vector<std::int64_t> rows;
  double scale = 1;
};

struct ExportPlan {
  Json config = Json::object();  ///< config.json without the tokenizer's part
  std::vector<ExportTensor> tensors;
  bool needs_code = false;          ///< needs modeling_pe_pipeline.py, and trust_remote_code
  std::string why_code;             ///< why no stock class does; empty where one does
  Json positions = Json::object();  ///< realised frequencies and windows, for the manifest
};

/// A folder is for the classes of transformers, also for their older versions; GGUF takes only their names and options.
enum class ExportForm { kFolder, kGguf };

/// @param longest  what the model is said to be for, tokens; 0: the length it was trained at
/// @throws ConfigError with the reason where nothing computes the same
ExportPlan plan_export(const model::LanguageModel& model, std::int64_t longest, ExportForm form);

/// Numbers of a tensor as the export holds them, some rows at a time. @param values of its source, row-major
void exported_values(const ExportTensor& tensor, std::span<const float> values,
                     const std::function<void(std::span<const float>)>& sink);

/// Kinds of encoding that the code knows, apart from rotations by fixed angles.
bool code_knows(const std::string& kind);

}  // namespace pe::interop
