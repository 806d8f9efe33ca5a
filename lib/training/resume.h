/// @file
/// Checkpoints to resume from: `<work>/checkpoints/step-<n>.h5`. Written beside their name by one thread while training
/// goes on, synced and renamed, so that a killed training and a full disk leave the one before. Where no work folder is
/// left, a snapshot that the training gave earlier serves as well.
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

/// Asks the system to read the newest checkpoint of this workspace into its page cache, and does not wait for it. Called when the
/// program starts, so that the disk works while LibTorch is loaded and the model is built.
void prefetch_checkpoint(const artifact::Workspace& workspace);

class ResumeStore {
 public:
  ResumeStore(const artifact::Workspace& workspace, const CheckpointConfig& config, support::Progress& progress);
  ~ResumeStore();   ///< waits for the writer; whoever wants to know how it went calls `wait`

  using Write = std::function<void(const std::filesystem::path&)>;

  /// Has a thread write the checkpoint of `step`, and then remove those that need not stay: all but the newest `keep`,
  /// multiples of `pin_every`, and `best` (the step with the lowest validation loss, where that one is kept). One at a
  /// time: waits for the one before. `write` must own what it writes, since training goes on.
  /// @throws what the writer of the one before threw.
  void save(std::int64_t step, std::optional<std::int64_t> best, Write write);
  struct Written {
    std::int64_t step = 0;
    double seconds = 0;       ///< from the file's first byte to its durable name, beside the training
    std::uint64_t bytes = 0;
  };
  /// What has been written since this was last asked; at most one, since they are written one at a time.
  std::optional<Written> written();

  /// Until nothing is being written. @throws what the writer threw, with the step and what is there to go on from.
  void wait();
  /// The same when the writer has ended; else returns at once.
  void check();

  /// Hands the newest checkpoint to `load` that is whole, belongs to the same run as `expected` says (all but step,
  /// tokens, position and phase), and has done more than `after` and at most `until` steps; of this attempt's folder or
  /// the one to resume from, whose checkpoints this attempt then keeps too; or the workspace's earlier snapshot. `load`
  /// must change nothing before it has read and checked everything: what it throws as ArtifactError is a damaged file,
  /// named in a warning and passed over. Its second argument is where a snapshot's metrics are; else null.
  /// @return whether there was one
  bool restore(const artifact::CheckpointMeta& expected, std::int64_t after, std::int64_t until,
               const std::function<void(const artifact::CheckpointReader&, const std::filesystem::path* metrics)>& load);

 private:
  void tidy(std::int64_t step, std::optional<std::int64_t> best) const;
  void adopt(std::int64_t step) const;

  std::vector<std::filesystem::path> folders_;   ///< the first is written to
  std::optional<artifact::Snapshot> earlier_;
  CheckpointConfig config_;
  support::Progress& progress_;
  std::set<std::filesystem::path> damaged_;      ///< passed over; they never count as kept
  std::int64_t step_ = 0;                        ///< of what is being written
  std::future<Written> writer_;
  std::optional<Written> written_;
};

}  // namespace pe::training
