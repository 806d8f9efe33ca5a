/// @file
/// Checkpoints to resume from: `<work>/checkpoints/step-<n>.h5`, the newest `keep` of them. Written beside their name,
/// synced and renamed, so a killed training leaves the one before.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "artifact/checkpoint.h"
#include "artifact/workspace.h"
#include "support/progress.h"

namespace pe::training {

class ResumeStore {
 public:
  ResumeStore(const artifact::Workspace& workspace, std::int64_t keep, support::Progress& progress);

  void save(std::int64_t step, const std::function<void(const std::filesystem::path&)>& write);

  /// Hands the newest checkpoint to `load` that is whole, belongs to the same run as `expected` says (all but step,
  /// tokens, position and phase), and has done more than `after` and at most `until` steps; of this attempt's folder or
  /// the one to resume from. Damaged ones are named in a warning and passed over.
  void restore(const artifact::CheckpointMeta& expected, std::int64_t after, std::int64_t until,
               const std::function<void(const artifact::CheckpointReader&)>& load);

 private:
  std::vector<std::filesystem::path> folders_;   ///< the first is written to
  std::int64_t keep_;
  support::Progress& progress_;
};

}  // namespace pe::training
