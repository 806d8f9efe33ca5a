/// @file
/// The work of one element of an array inside its job. It looks whether its results and its inputs exist, joins the run
/// of its submission with a separate journal, and runs its tasks by the usual execution. It calls Slurm only when the
/// job was asked to stop.
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
  std::string digest;  ///< SHA-256 of arrays/<token>.json when it was submitted
  std::int64_t index = 0;
  double input_wait_s = 120;  ///< how long inputs that should be there may take to be seen
  int publish_threads = 1;    ///< as in RunOptions
  /// Seconds that it keeps its job while others work on all its remaining tasks. They must exceed the life of a lease
  /// without a heartbeat: by then the owner is alive, or its lease was broken.
  double most_idle_s = 150;
};

/// Exit codes are a run's codes, and 75 when it was asked to stop and Slurm does not say whether it may be queued
/// again.
/// @throws ArtifactError, IoError, ConfigError as a run does
int run_element(const ElementOrder& order, Slurm& slurm, Runner& runner, RunListener& listener,
                const StopFunction& stop);

}  // namespace pe::pipeline
