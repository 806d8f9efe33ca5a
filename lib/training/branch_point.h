/// @file
/// Inputs of a stage that trains: token shards, and the snapshot of another training where it branches off one.
#pragma once

#include <cstdint>
#include <string>

#include "artifact/checkpoint.h"
#include "artifact/workspace.h"
#include "data/token_shards/token_dataset.h"
#include "training/run.h"

namespace pe::training {

/// Opens the token shards of role "data".
/// @throws ArtifactError when there is no window to train on, or if `documents` has no effect on it
data::TokenDataset open_data(const artifact::Workspace& workspace, std::int64_t length,
                             const char* key = "train.length", Documents documents = Documents::kJoined);

/// @throws ArtifactError where `documents` has no effect: a window is one document, and has no labels
void require_borders(const data::TokenDataset& dataset, Documents documents, const std::string& where,
                     const std::string& hint);

/// A snapshot (artifact/workspace.h) for a stage that branches off it: the state from which training continues.
struct BranchPoint {
  artifact::CheckpointReader checkpoint;
  std::string digest;  ///< content digest
  OptimizerSettings optimizer;
  std::int64_t optimizer_start = 0;
  std::int64_t step = 0;
  std::int64_t batch = 0, length = 0, data_seed = 0;
  std::int64_t tokens_before = 0;  ///< of trainings before the one whose steps are counted
  Documents documents = Documents::kJoined;
  std::string phase;  ///< of its schedule at `step`
  double lr = 0;      ///< of its last update
  /// The model was trained elsewhere. It has no moments, no data and no schedule; its import named batch and length.
  bool imported = false;
};

/// Requirements of a branch on the snapshot.
struct BranchNeeds {
  bool moments = true;
  bool same_data = true;
};

/// Of role "init". @throws ArtifactError naming the file when it is no snapshot (no moments, diverged), or was trained
/// on other data or with another tokenizer.
BranchPoint open_branch_point(const artifact::Workspace& workspace, const data::TokenDataset& dataset,
                              BranchNeeds needs = {});

/// A run that continues from the snapshot. The branch adds its schedule, its end and its changes.
Run run_from(const BranchPoint& snapshot, const model::LanguageModel& model, const StageConfig& config,
             const WatchConfig& watch, const model::ComputeConfig& compute, Communicator* ranks);

}  // namespace pe::training
