/// @file
/// Results that a run writes: models and metrics, at its end or at a snapshot.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "training/curves.h"
#include "training/run.h"

namespace pe::training {

/// Where a checkpoint holds the weights of the best validation.
inline constexpr const char* kBestPart = "best/";

/// Progress of a run, without its weights and its optimizer's state.
struct Position {
  std::int64_t step = 0;
  Curves curves;
  std::vector<std::int64_t> skipped;  ///< steps that changed nothing, as counted in curves
  Json inexact = Json::array();       ///< where it went on from another machine's checkpoint
  std::vector<at::Tensor> best;  ///< the weights of the best validation, like the model's groups; empty where not kept

  /// The validation whose weights are kept; none where none are, or before the first.
  std::optional<ValidationRow> kept_best() const { return best.empty() ? std::nullopt : curves.best(); }
};

class ArtifactWriter {
 public:
  ArtifactWriter(const Run& run, const data::TokenDataset& dataset, const artifact::Workspace& workspace,
                 const Optimizer& optimizer, Communicator& ranks)
      : run_(run), dataset_(dataset), workspace_(workspace), optimizer_(optimizer), ranks_(ranks) {}

  std::int64_t tokens_seen(std::int64_t step) const;
  artifact::CheckpointMeta meta(const Position& position, bool diverged) const;

  /// By the current model; all ranks take part.
  std::optional<ValidationRow> validation(std::int64_t step) const;

  /// The roles that the stage was asked for. The metrics end with a validation of this very model; rank 0 writes.
  void write(const std::map<std::string, std::filesystem::path>& outputs, const Position& position, bool moments,
             bool diverged) const;

 private:
  void write_model(const std::filesystem::path& path, const Position& position, bool moments, bool diverged) const;
  Json facts(const Position& position, bool diverged) const;
  void add_average(std::int64_t step, Json& facts) const;

  const Run& run_;
  const data::TokenDataset& dataset_;
  const artifact::Workspace& workspace_;
  const Optimizer& optimizer_;
  Communicator& ranks_;
};

}  // namespace pe::training
