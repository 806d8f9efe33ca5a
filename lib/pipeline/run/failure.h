/// @file
/// Meaning and consequences of the end of a stage.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/run/runner.h"

namespace pe::pipeline {

enum class Outcome {
  kDone,          ///< 0: Publish, if the outputs are whole.
  kBroken,        ///< 0, but outputs are missing or damaged: fails, never retried.
  kCheckpointed,  ///< 75: Requeue; free when the step moved.
  kDiverged,      ///< 76: Publish as diverged, or fail under `on_diverge: fail`.
  kInput,         ///< 3: Verify the inputs; a damaged one is made again once.
  kNetwork,       ///< 69: Retry with backoff.
  kIo,            ///< 74: Fails; the run ends with 4 where the store itself takes no more files.
  kOtherProgram,  ///< 77: The stage was rebuilt after planning: fails, a new run plans with the current programs.
  kPermanent,     ///< 2, 64 to 68, 70 to 73, 78: Fails without a retry.
  kInterrupted,   ///< 130, or ended by the signal we sent: costs no attempt.
  kOutOfMemory,   ///< Killed for memory, or 137: retry with more.
  kNode,          ///< The machine's fault: cannot start, lost; tried again after 1, 2, 4 and 8 s.
  kTransient,     ///< Anything else: retried.
  kNoProgress,    ///< 75 twice at the same step.
  kTimeLimit,     ///< Ran longer than `resources.time`, and saved nothing when asked to stop.
};

std::string_view outcome_name(Outcome outcome);

/// @param stop_sent  whether we asked the stage to stop or killed it
Outcome classify(const RunnerEvent& exit, bool stop_sent);

/// Whether a log ends with an error of a Python program that another attempt would meet again, such as SyntaxError or
/// ModuleNotFoundError. Errors of the machine, such as OSError, are not among them.
/// @param tail  last lines of the log
bool is_python_mistake(const std::vector<std::string>& tail);

/// Number of tries of a task that count as attempts.
struct RetryCounts {
  int failed = 0;               ///< attempts that ended in a retryable failure
  int unstarted = 0;            ///< attempts that could not start
  int requeued = 0;             ///< in a row without a step
  std::int64_t last_step = -1;  ///< that a checkpoint was reported for
};

struct Decision {
  enum class Kind { kPublish, kRetry, kRequeue, kFail };
  Kind kind = Kind::kFail;
  double delay_s = 0;     ///< before a retry
  double mem_factor = 1;  ///< of the next attempt's memory
};

/// The table of doc/failures.md, "Ends of stages". `moved` says whether a checkpoint later than the start's was
/// reported.
Decision decide(Outcome outcome, const RetryPolicy& policy, const RetryCounts& before, bool moved);

/// Description of an exit for people: "exit code 70", "killed by signal 9 (Killed), out of memory".
std::string describe_exit(const RunnerEvent& exit);

}  // namespace pe::pipeline
