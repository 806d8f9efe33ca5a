/// @file
/// The work of the last job of a submission, and of `submit --continue`. It sends the jobs that did not fit into the
/// queue. When nothing is left, it completes the run: names for people, reports, the summary.
#pragma once

#include <functional>
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

/// @param own_job  Array id of the calling last job, which does not count as running. Empty for `--continue`.
/// @param tell  Called when sending takes long. Its argument is a line of text.
/// @throws ArtifactError when the run is no submission or is damaged; ConfigError when it is another user's or another
///   cluster's; IoError
LastReport go_on(
    Store& store, const std::string& run, Slurm& slurm, const std::string& own_job,
    const std::function<void(const std::string&)>& tell = [](const std::string&) {});

/// Writes the summary of each submission in `open` that has no job in the queue. All of `open` belong to this user and
/// cluster. Without all its results a submission must be ten minutes old, since its jobs may be about to be sent.
/// Links in `out/` and `reports/` stay unchanged, since a newer run may have written them.
void end_abandoned(Store& store, const std::vector<Submission>& open, const std::vector<JobRow>& rows, Slurm& slurm);

}  // namespace pe::pipeline
