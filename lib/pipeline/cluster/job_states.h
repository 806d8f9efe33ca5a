/// @file
/// State of a submission from the queue and the accounts, added to the state from its journals. The store is the truth:
/// an existing result is done whatever Slurm says, and without an answer of Slurm nothing is concluded.
#pragma once

#include <optional>
#include <vector>

#include "pipeline/cluster/slurm.h"
#include "pipeline/cluster/submission.h"
#include "pipeline/run/run_status.h"

namespace pe::pipeline {

struct JobStates {
  std::optional<std::vector<JobRow>> rows;     ///< nothing: squeue did not answer
  std::optional<std::vector<EndedJob>> ended;  ///< nothing: not asked, or there are no accounts
};

/// Fills in jobs, phases and the state of the run. Phases in addition to a run's: "queued", "starting", "lost".
void add_jobs(RunStatus& status, const Store& store, const Submission& submission, const JobStates& jobs);

/// Asks Slurm, at most twice, and adds its answer to the status. Runs that are no submission stay unchanged.
void add_jobs(RunStatus& status, const Store& store, Slurm& slurm);

}  // namespace pe::pipeline
