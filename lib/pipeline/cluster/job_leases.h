/// @file
/// Slurm's knowledge of the owner of a lease.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pipeline/cluster/slurm.h"
#include "pipeline/store/lease.h"

namespace pe::pipeline {

/// Whether the rows, of `cluster`, say that the owner's job is over, or was started again since. The answer is false
/// for a job that the rows lack, for a job of another cluster, and for a row of another name.
bool job_is_over(const LeaseOwner& owner, const std::string& cluster, const std::vector<JobRow>& rows);

/// For LeaseOptions::job_ended. Slurm is asked only about owners that are jobs of its cluster, and at most twice a
/// minute.
std::function<bool(const LeaseOwner&)> job_ended_by(Slurm& slurm);

}  // namespace pe::pipeline
