/// @file
/// What the settings of a Slurm mean for submissions.
#pragma once

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

/// Limits on jobs, what preemption and the end of a job's time do, and whether ended jobs can be asked about; from
/// scontrol show config and show partition.
std::vector<SiteFinding> judge_site(const SiteConfig& config, const SiteRecords& partitions);

}  // namespace pe::pipeline
