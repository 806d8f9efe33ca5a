/// @file
/// What one element of an array does inside its job: looks whether its results are there already and its inputs are,
/// joins the run of its submission with a journal of its own, and runs its tasks by the usual execution. Slurm is asked
/// for nothing unless the job was told to stop.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "pipeline/cluster/slurm.h"
#include "pipeline/run/run.h"

namespace pe::pipeline {

/// As the batch script says it.
struct ElementOrder {
  std::filesystem::path store;
  std::string run, token;
  std::string digest;      ///< SHA-256 of arrays/<token>.json when it was submitted
  std::int64_t index = 0;
  double input_wait_s = 120;  ///< how long inputs that should be there may take to be seen
  int publish_threads = 1;    ///< as in RunOptions
  /// Seconds that it keeps its job while others work on all its remaining tasks. They must exceed the life of a lease
  /// without a heartbeat: by then the owner is alive, or its lease was broken.
  double most_idle_s = 150;
};

/// Exit codes beside those of a run: 75 when it was told to stop and nobody answers whether it may be queued again.
/// @throws ArtifactError, IoError, ConfigError as a run does
int run_element(const ElementOrder& order, Slurm& slurm, Runner& runner, RunListener& listener,
                const StopFunction& stop);

}  // namespace pe::pipeline
