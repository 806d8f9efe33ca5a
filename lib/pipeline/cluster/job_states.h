/// @file
/// What the queue and the accounts say of a submission, laid over what its journals say. The store is the truth: a result
/// that is there is done whatever Slurm says, and where Slurm does not answer nothing is concluded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/cluster/slurm.h"
#include "pipeline/cluster/submission.h"
#include "pipeline/run/run_status.h"

namespace pe::pipeline {

struct JobStates {
  std::optional<std::vector<JobRow>> rows;      ///< nothing: squeue did not answer
  std::optional<std::vector<EndedJob>> ended;   ///< nothing: not asked, or there are no accounts
};

/// Fills in jobs, phases and the state of the run. Phases beside those of every run: "queued", "starting", "lost".
void add_jobs(RunStatus& status, const Store& store, const Submission& submission, const JobStates& jobs);

/// Asks Slurm, at most twice, and lays its answer over the status. What is no submission stays as it is.
void add_jobs(RunStatus& status, const Store& store, Slurm& slurm);

}  // namespace pe::pipeline
