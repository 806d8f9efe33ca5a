/// @file
/// The phases of a task in a run.
#pragma once

#include <string_view>

namespace pe::pipeline {

enum class TaskPhase {
  kWaiting,    ///< for inputs
  kReady,      ///< for a slot
  kVerifying,  ///< its inputs are being read through, before it may start
  kRunning,
  kDone,  ///< made by this run
  kReused,
  kFailed,
  kBlocked,  ///< something it needs failed, or is not there
  kInterrupted,
  kSkipped,  ///< not needed
};

/// "waiting", "ready", "verifying", "running", "done", "reused", "failed", "blocked", "interrupted", "skipped".
std::string_view phase_name(TaskPhase phase);

/// Whether the run still has something to do for a task in this phase.
bool is_unfinished(TaskPhase phase);

}  // namespace pe::pipeline
