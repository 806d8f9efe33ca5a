/// @file
/// Checkpoints to resume from: `<work>/checkpoints/step-<n>.h5`. One thread writes each under a temporary name during
/// training, syncs it and renames it, so that a killed training and a full disk leave the one before. Without a work
/// folder, an earlier snapshot of the training serves as well.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <set>
#include <vector>

#include "artifact/checkpoint.h"
#include "artifact/workspace.h"
#include "support/progress.h"
#include "training/train_config.h"

namespace pe::training {

/// Asks the system to read the newest checkpoint of this workspace into its page cache, and does not wait for it.
/// Called when the program starts, so that the disk works while LibTorch is loaded and the model is built.
void prefetch_checkpoint(const artifact::Workspace& workspace);

class ResumeStore {
 public:
  ResumeStore(const artifact::Workspace& workspace, const CheckpointConfig& config, support::Progress& progress);
  ~ResumeStore();  ///< waits for the writer; `wait` reports its errors

  using Write = std::function<void(const std::filesystem::path&)>;

  /// Starts a thread that writes the checkpoint of `step` and then removes old ones. Kept are the newest `keep`,
  /// multiples of `pin_every`, and `best` (the step with the lowest validation loss, where the run keeps it). One at a
  /// time: it waits for the one before. `write` must own the data that it writes, since training continues.
  /// @throws the error of the writer of the one before.
  void save(std::int64_t step, std::optional<std::int64_t> best, Write write);
  struct WriteReport {
    std::int64_t step = 0;
    double seconds = 0;  ///< from the file's first byte to its durable name, during training
    std::uint64_t bytes = 0;
  };
  /// The checkpoint written since the last call; at most one, since they are written one at a time.
  std::optional<WriteReport> written();

  /// Waits for the writer. @throws the writer's error, with the step and the checkpoints that are left.
  void wait();
  /// The same when the writer has ended; else returns immediately.
  void check();

  /// Passes to `load` the newest whole checkpoint of the same run as `expected` (all fields but step, tokens, position
  /// and phase). It must have done more than `after` and at most `until` steps. It comes from this attempt's folder or
  /// from the one to resume from, whose checkpoints this attempt then keeps too, or is the workspace's earlier
  /// snapshot. `load` must change nothing before it has read and checked everything. If it throws ArtifactError, the
  /// file is corrupt; a warning names it, and it is skipped. The second argument of `load` is the path of a snapshot's
  /// metrics; else null.
  /// @return whether there was one
  bool restore(
      const artifact::CheckpointMeta& expected, std::int64_t after, std::int64_t until,
      const std::function<void(const artifact::CheckpointReader&, const std::filesystem::path* metrics)>& load);

 private:
  void tidy(std::int64_t step, std::optional<std::int64_t> best) const;
  void adopt(std::int64_t step) const;

  std::vector<std::filesystem::path> folders_;  ///< the first is written to
  std::optional<artifact::Snapshot> earlier_;
  CheckpointConfig config_;
  support::Progress& progress_;
  std::set<std::filesystem::path> damaged_;  ///< passed over; they never count as kept
  std::int64_t step_ = 0;                    ///< step of the checkpoint in writing
  std::optional<std::int64_t> last_;         ///< step of this run's last whole checkpoint
  std::future<WriteReport> writer_;
  std::optional<WriteReport> written_;
};

}  // namespace pe::training
