/// @file
/// Status of a run from its folder (run_folder.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/store/host.h"
#include "pipeline/store/store.h"
#include "support/json.h"

namespace pe::pipeline {

/// Status of one task.
struct TaskStatus {
  std::string id, stage, plan_key, task_key;
  std::string phase;        ///< phase_name, or "lost" for a task of a run that died
  bool known_only = false;  ///< reused, and not all of its bytes are in the store
  int attempt = 0;
  std::string reason;  ///< of a failure or a block
  std::string log;
  std::string job;                 ///< "12_3" of a cluster; empty elsewhere
  double started = 0, ended = 0;   ///< unix; 0: not yet
  Json progress;                   ///< null unless it runs now
  std::vector<std::string> needs;  ///< producers of its inputs, "train[seed=1]@end"; empty for a task that was reused
};

struct RunStatus {
  std::string run_id, pipeline, file, host;
  std::int64_t pid = 0;
  double started = 0, ended = 0;
  std::string state;  ///< running, done, failed, incomplete, interrupted, died; of a submission also queued, cancelled,
                      ///< unknown
  int exit_code = -1;
  std::vector<TaskStatus> tasks;
  std::size_t damaged_lines = 0;
  std::vector<std::string> command;
  HostIdentity where;  ///< the machine of `pid`
  std::uint64_t process_start = 0;
  std::string trouble;  ///< the reason when the queue is unknown; else empty
  std::string cluster;  ///< "slurm" of a submission, whose jobs (cluster/job_states.h) say more; else empty
};

/// Reads a run. @throws IoError, ArtifactError when there is no such run or its plan is unreadable.
RunStatus read_run(const Store& store, const std::string& run_id);

Json to_json(const RunStatus& status);

/// The owner of a run that has not ended, as its plan names it: still there, or, on another host, heard of within two
/// minutes.
bool run_is_alive(const Store& store, const std::string& run_id);
/// Ids of all runs of which that holds, oldest first.
std::vector<std::string> live_runs(const Store& store);

}  // namespace pe::pipeline
