/// @file
/// The training loop of all stages that train. A stage fills in a Run: the model, where it starts, the schedule and the
/// end; `execute` does the rest. It does batches in keyed order, accumulation, updates, validation, logs, checkpoints
/// to resume from, snapshots, artifacts, stopping and divergence.
///
/// The integer step is the only clock. A run that was stopped or killed at any step, any number of times, ends with the
/// same bytes as one that was not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "artifact/workspace.h"
#include "data/token_shards/sample_order.h"
#include "data/token_shards/token_dataset.h"
#include "model/language_model.h"
#include "training/communicator.h"
#include "training/curves.h"
#include "training/documents.h"
#include "training/optimizer.h"
#include "training/schedule.h"
#include "training/train_config.h"

namespace pe::training {

struct Run {
  model::LanguageModel model;
  OptimizerSettings optimizer;
  std::int64_t optimizer_start = 0;  ///< step at which the moments were zero
  Schedule schedule;
  std::int64_t first_step = 0;  ///< steps done before
  std::int64_t last_step = 0;   ///< steps done at the end
  std::int64_t batch = 1;
  std::int64_t data_seed = 0;
  Documents documents = Documents::kJoined;
  std::int64_t tokens_before = 0;  ///< tokens of earlier trainings, where steps count from 0
  WatchConfig watch;
  model::ComputeConfig compute;  ///< resolved
  /// Of all ranks; each works on its part of every batch, rank 0 writes. Null: this process is alone.
  Communicator* communicator = nullptr;
  bool keep_best = false;  ///< checkpoints also hold the weights of the best validation, as best/…
  CheckpointConfig checkpoint;
  WatchFiles watch_files;
  std::vector<std::string> parents;     ///< Content digests of the checkpoints it descends from.
  artifact::DocumentSample trained_on;  ///< Documents that its parents were trained on.
  Json branch = Json::object();         ///< Entry of artifacts for a branch: kind, step, settings.
  std::vector<std::string> fresh;       ///< Parameters that `moments_from` lacks.
  bool artifact_holds_moments = false;  ///< of the final artifact; snapshots always hold them
  bool saves_end = false;               ///< a checkpoint of the last step is kept, since more work follows
  std::string hint_at_divergence = "lower train.peak_lr, or lengthen the warm-up";
  /// Moments to begin with, when the optimizer continues from a checkpoint.
  const artifact::CheckpointReader* moments_from = nullptr;
};

/// @throws support::StopRequest after a checkpoint when asked to stop; Error with kExitDiverged after writing the
/// requested artifacts with status `diverged`; ConfigError for parts of batches where the model attends over a batch.
void execute(const Run& run, const data::TokenDataset& dataset, artifact::Workspace& workspace);

}  // namespace pe::training
