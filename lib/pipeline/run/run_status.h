/// @file
/// History and status of a run, from its folder (run_folder.h). Only this reader derives states from the events of
/// the journal; the timeline, the states of jobs and the end of a submission are views of it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "pipeline/store/host.h"
#include "pipeline/store/store.h"
#include "support/json.h"

namespace pe::pipeline {

/// One attempt of a task. Times are seconds since the run began.
struct TaskAttempt {
  int attempt = 0;
  double start_s = 0, end_s = -1;  ///< -1: its end is not known
  std::string outcome;             ///< "done", "oom", …; empty without an end
  double cpu_s = 0;
  std::int64_t peak_rss_bytes = 0;
  std::int64_t cpus = 0;
  std::vector<std::string> gpus;
  bool resumed = false;
};

/// Status of one task.
struct TaskStatus {
  std::string id, stage, plan_key, task_key;
  std::string phase;        ///< phase_name, or "lost" for a task of a run that died
  bool known_only = false;  ///< reused, and not all of its bytes are in the store
  int attempt = 0;
  std::string reason;  ///< of a failure or a block
  std::string log;
  std::string job;                ///< "12_3" of a cluster; empty elsewhere
  double started = 0, ended = 0;  ///< unix; 0: not yet
  Json progress;                  ///< null unless it runs now
  std::uint64_t bytes = 0;        ///< published in this run
  std::vector<TaskAttempt> attempts;
  std::vector<std::string> needs;  ///< producers of its inputs, "train[seed=1]@end"; empty for a task that was reused
};

struct RunStatus {
  std::string run_id, pipeline, title, file, root, host, capacity;
  std::int64_t pid = 0;
  double started = 0, ended = 0;
  std::string state;  ///< running, done, failed, incomplete, interrupted, died; of a submission also queued, cancelled,
                      ///< unknown
  int exit_code = -1;
  std::vector<TaskStatus> tasks;                        ///< in plan order
  std::unordered_map<std::string, std::size_t> places;  ///< of the tasks, by id
  /// When a result was published or found, in seconds since the run began, by its name in TaskStatus::needs.
  std::unordered_map<std::string, double> there_s;
  double last_s = 0;  ///< of the last event, in seconds since the run began
  std::size_t damaged_lines = 0;
  std::vector<std::string> command;
  HostIdentity where;  ///< the machine of `pid`
  std::uint64_t process_start = 0;
  std::string trouble;  ///< the reason when the queue is unknown; else empty
  std::string cluster;  ///< "slurm" of a submission, whose jobs (cluster/job_states.h) say more; else empty

  /// Null when the run has no such task.
  const TaskStatus* find(const std::string& id) const;
  /// The task that makes a need, "train[seed=1]@end". Null when the run has none.
  const TaskStatus* find_producer(const std::string& need) const;
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
