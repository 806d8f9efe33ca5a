/// @file
/// Models in and out of checkpoint artifacts. Weights are tensors "model/<parameter name>"; the metadata's `model` is
/// the config (with "length", "vocabulary" and "seed"), `encoding` the encoding's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "artifact/checkpoint.h"
#include "model/language_model.h"
#include "support/config.h"

namespace pe::model {

/// Fills the metadata about the model: `model` and `encoding`.
void describe_model(const LanguageModel& model, artifact::CheckpointMeta& meta);

/// Adds every parameter. On a GPU each is copied to the host first.
void write_weights(const LanguageModel& model, artifact::CheckpointWriter& writer);

/// The config in a checkpoint, its encoding included. @throws ArtifactError naming the file and the field.
ModelConfig config_of(const artifact::CheckpointReader& checkpoint);
std::uint64_t seed_of(const artifact::CheckpointReader& checkpoint);

/// Which of the weights in a checkpoint: the weights at its step, their moving average, or the weights with the lowest
/// validation loss of the training.
enum class WeightsOf { kModel, kEma, kBest };
const char* weights_name(WeightsOf weights);  ///< "model", "ema" or "best"
/// Describes a config's choice among them, as field `weights`.
void describe_weights(support::FieldVisitor& v, WeightsOf& weights);
struct StoredWeights {
  std::string prefix;                 ///< "model/", "ema/" or "best/"
  std::int64_t step = 0, tokens = 0;  ///< that they had seen
};
/// @throws ArtifactError with the file and a way out when its training kept none of that kind.
StoredWeights find_weights(const artifact::CheckpointReader& checkpoint, WeightsOf which);

/// The model of a checkpoint, weights loaded. `replace_encoding` (canonical, or null) builds it with another encoding,
/// whose own parameters are then freshly drawn. `weights` is the path of the weights, from find_weights.
/// @throws ArtifactError with file and both values when a tensor is missing, surplus or of another shape.
LanguageModel load_model(const artifact::CheckpointReader& checkpoint, at::Device device = at::kCPU,
                         at::ScalarType compute = at::kFloat, const Json& replace_encoding = nullptr,
                         const std::string& weights = "model/");

/// Changes that a branch makes to the model of its snapshot.
struct ModelChanges {
  Json encoding = nullptr;                 ///< Canonical; null: unchanged.
  std::int64_t length = 0;                 ///< Training context; 0: unchanged.
  std::optional<QkNormOver> qk_norm_over;  ///< If it differs from the checkpoint's, the norm starts at ones.
  /// Takes parameters of the new encoding from the checkpoint where it has the same name: whole, or as the first rows
  /// of a longer table. Otherwise all of them are freshly drawn.
  bool keep_encoding_parameters = false;
  bool redraw_other_shapes = false;  ///< Kept parameters of another shape are freshly drawn, and no error.
};

struct ChangedModel {
  LanguageModel model;
  std::vector<std::string> fresh;    ///< parameters that the checkpoint lacks: drawn, or ones
  std::vector<std::string> grown;    ///< tables whose first rows came from the checkpoint
  std::vector<std::string> dropped;  ///< the checkpoint's that the model has no place for

  std::vector<std::string> untrained() const;  ///< fresh, then grown
};

/// @throws ArtifactError naming the file, the parameter and both shapes where one of the same name does not fit.
ChangedModel load_changed(const artifact::CheckpointReader& checkpoint, const ModelChanges& changes,
                          at::Device device = at::kCPU, at::ScalarType compute = at::kFloat);

/// Copies "<prefix><parameter name>" into tensors with the layout of the model's parameters (the weights themselves, or
/// moments in flat buffers). Names that begin with "encoding." are skipped with `skip_encoding`.
void read_tensors(const artifact::CheckpointReader& checkpoint, const std::string& prefix, const LanguageModel& model,
                  const std::vector<at::Tensor>& flat, bool skip_encoding = false);
/// The same, except for parameters that `skip` names.
void read_tensors(const artifact::CheckpointReader& checkpoint, const std::string& prefix, const LanguageModel& model,
                  const std::vector<at::Tensor>& flat, const std::vector<std::string>& skip);
/// @throws ArtifactError when the checkpoint lacks a tensor of such a name, or has it in another shape or dtype.
void require_tensors(const artifact::CheckpointReader& checkpoint, const std::string& prefix,
                     const LanguageModel& model, const std::vector<std::string>& skip = {});
void write_tensors(artifact::CheckpointWriter& writer, const std::string& prefix, const LanguageModel& model,
                   const std::vector<at::Tensor>& flat, const std::vector<std::string>& skip = {});

}  // namespace pe::model
