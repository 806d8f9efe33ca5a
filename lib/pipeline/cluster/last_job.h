/// @file
/// What the last job of a submission does, and `submit --continue` as well: sends what did not fit into the queue, or,
/// when nothing is left, ties the run up: names for people, reports, the summary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/cluster/allocation.h"
#include "pipeline/cluster/slurm.h"
#include "pipeline/cluster/submission.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

struct LastReport {
  bool ended = false;
  std::string summary;  ///< "8 done, 1 failed"
  int exit_code = 0;    ///< of a run that has ended
  SendReport sent;
  std::vector<std::string> warnings;
};

/// @param own_job  array id of the caller when it is the last job, which does not count as one that works
/// @throws ArtifactError when the run is no submission or is damaged, IoError
LastReport go_on(Store& store, const std::string& run, Slurm& slurm, const std::string& own_job);

/// Memory that the newest attempt had when it ran out of it; 0 when it did not, or nobody says.
std::int64_t memory_that_was_too_little(const Store& store, const std::string& plan_key);

}  // namespace pe::pipeline
