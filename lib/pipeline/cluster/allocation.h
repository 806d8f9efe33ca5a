/// @file
/// Facts of a job from the environment that Slurm gives it, and its decision after a request to stop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "pipeline/cluster/slurm_answers.h"
#include "pipeline/plan/capacity.h"

namespace pe::pipeline {

using Environment = std::function<std::optional<std::string>(const char* name)>;
/// A variable of this process.
std::optional<std::string> own_environment(const char* name);

/// The job that this process is part of, as Slurm's variables name it.
struct OwnJob {
  std::string job;        ///< SLURM_JOB_ID
  std::string array_job;  ///< SLURM_ARRAY_JOB_ID, or the same
  std::int64_t index = 0;
  std::int64_t restarts = 0;
  std::string node;
  std::string cluster;  ///< SLURM_CLUSTER_NAME

  /// "12_3", the name for orders to Slurm. The number alone may be the number of the whole array, which one element
  /// shares.
  std::string id() const;
};
std::optional<OwnJob> own_job(const Environment& environment = own_environment);

/// `machine` narrowed to the job's CPUs and memory; of several nodes, all of them together. GPUs are as CUDA sees them.
Capacity allocated(Capacity machine, const Environment& environment = own_environment);

/// Facts about an element that was asked to stop before its end.
struct StopFacts {
  bool cancelled = false;     ///< our own mark exists
  std::optional<JobRow> row;  ///< Slurm's row of the job; nothing when Slurm does not answer.
  bool moved = false;         ///< A step was saved that this attempt did not begin with.
  bool keeps_steps = false;   ///< Some unfinished task saves steps at all.
  std::int64_t still = 0;     ///< attempts in a row, this one included, without a step
  std::int64_t restarts = 0;
  double lead_s = 120;    ///< time between the signal to the job and its end
  std::string waits_for;  ///< owner of the lease of all remaining tasks, for which it gives its place up; else empty
};

struct StopDecision {
  enum class Kind {
    kRequeue,
    kEnd,      ///< cancelled, or Slurm queues it again by itself
    kGiveUp,   ///< no progress
    kUnknown,  ///< Slurm does not answer
  };
  Kind kind = Kind::kUnknown;
  std::string why;
};

/// A cancelled job stays cancelled: only a job that Slurm still lists as running is queued again.
StopDecision decide_after_stop(const StopFacts& facts);

}  // namespace pe::pipeline
