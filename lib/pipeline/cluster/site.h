/// @file
/// Consequences of the settings of a Slurm for submissions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace pe::pipeline {

using SiteConfig = std::map<std::string, std::string>;
using SiteRecords = std::vector<std::map<std::string, std::string>>;

struct SiteFinding {
  bool warns = false;
  std::string text, advice;
};

/// Whether this Slurm rejects jobs above the limits of an account, which Slurm::associations returns.
bool keeps_account_limits(const SiteConfig& config);

/// How many jobs a user may have in the queue with this account, or, when none is named, with the one that allows the
/// fewest; 0: any number.
std::int64_t most_in_queue(const SiteRecords& associations, const std::string& account);

/// Seconds that `partition` (empty: the cluster's default) gives to a job that names no time; 0: unknown, or without
/// end.
double usual_time(const SiteRecords& partitions, const std::string& partition);

/// Limits on jobs, the effects of preemption and of the end of a job's time, and whether ended jobs can be queried. The
/// sources are scontrol show config and show partition, and this user's associations where there is accounting.
std::vector<SiteFinding> judge_site(const SiteConfig& config, const SiteRecords& partitions,
                                    const SiteRecords& associations = {});

}  // namespace pe::pipeline
