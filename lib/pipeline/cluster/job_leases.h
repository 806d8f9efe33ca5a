/// @file
/// What Slurm knows of the owner of a lease.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "pipeline/cluster/slurm.h"
#include "pipeline/store/lease.h"

namespace pe::pipeline {

/// Whether the rows say that the owner's job is over, or was started again since. A job that the rows do not hold may be
/// one that was never asked for: nothing follows from that.
bool job_is_over(const LeaseOwner& owner, const std::vector<JobRow>& rows);

/// For LeaseOptions::job_ended. Slurm is asked only about owners that are jobs, and at most twice a minute.
std::function<bool(const LeaseOwner&)> job_ended_by(Slurm& slurm);

}  // namespace pe::pipeline
