/// @file
/// What a job is told by the environment that Slurm gives it, and what it decides when it was told to stop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "pipeline/cluster/slurm_answers.h"
#include "pipeline/plan/capacity.h"

namespace pe::pipeline {

using Environment = std::function<std::optional<std::string>(const char* name)>;
/// Of this process.
std::optional<std::string> own_environment(const char* name);

/// The job that this process is part of, as Slurm's variables name it.
struct OwnJob {
  std::string job;        ///< SLURM_JOB_ID
  std::string array_job;  ///< SLURM_ARRAY_JOB_ID, or the same
  std::int64_t index = 0;
  std::int64_t restarts = 0;
  std::string node;
  std::string cluster;    ///< SLURM_CLUSTER_NAME

  /// "12_3", the name for orders to Slurm. The number alone may be the number of the whole array, which one element shares.
  std::string id() const;
};
std::optional<OwnJob> own_job(const Environment& environment = own_environment);

/// `machine` narrowed to the job's CPUs and memory; of several nodes, all of them together. GPUs are as CUDA sees them.
Capacity allocated(Capacity machine, const Environment& environment = own_environment);

/// What is known when an element has stopped before its end because it was told to.
struct StopFacts {
  bool cancelled = false;           ///< our own mark says so
  std::optional<JobRow> row;        ///< what Slurm says of the job; nothing when it does not answer
  bool moved = false;               ///< a step was saved that this attempt did not begin with
  bool keeps_steps = false;         ///< some unfinished task saves steps at all
  std::int64_t still = 0;           ///< attempts in a row, this one included, without a step
  std::int64_t restarts = 0;
  double lead_s = 120;              ///< how long before its end the job is told
  std::string waits_for;            ///< owner of the lease of all remaining tasks, for which it gives its place up; else empty
};

struct StopDecision {
  enum class Kind {
    kRequeue,
    kEnd,      ///< cancelled, or Slurm queues it again by itself
    kGiveUp,   ///< no progress
    kUnknown,  ///< nobody answers
  };
  Kind kind = Kind::kUnknown;
  std::string why;
};

/// A job that somebody cancelled stays so: only one that Slurm itself still calls running is queued again.
StopDecision decide_after_stop(const StopFacts& facts);

}  // namespace pe::pipeline
