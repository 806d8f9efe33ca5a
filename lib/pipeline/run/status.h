/// @file
/// The folder of a run, written while it goes on and read by `status` and `logs`, also of other processes.
///
///     runs/<run id>/plan.json      pe-run/1: who, when, with which command, and every needed task with its keys
///                   journal.*      journal.h
///                   progress.json  pe-progress/1: counts and running tasks, replaced about once a second
///                   summary.json   pe-run-summary/1: written at the end
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/plan/plan.h"
#include "pipeline/run/run.h"
#include "pipeline/store/journal.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

/// "20261121-194512-3fa9": sorts by time.
std::string new_run_id();

class RunFolder {
 public:
  /// Makes the folder and writes plan.json. @throws IoError
  RunFolder(const Store& store, const Graph& graph, const Plan& plan, const RunOptions& options, std::string run_id);
  /// Adds the event to the journal. False when that failed.
  bool add(const Graph& graph, const RunEvent& event);
  void write_progress(const RunState& state);
  void write_summary(const Graph& graph, const RunSummary& summary);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Journal journal_;
};

Json to_json(const Graph& graph, const RunState& state);
Json to_json(const Graph& graph, const RunSummary& summary);

/// What `status` knows of one task.
struct TaskStatus {
  std::string id, stage, plan_key, task_key;
  std::string phase;  ///< phase_name, or "lost" for a task of a run that died
  int attempt = 0;
  std::string reason;  ///< of a failure or a block
  std::string log;
  double started = 0, ended = 0;  ///< unix; 0: not yet
  Json progress = Json::object();
};

struct RunStatus {
  std::string run_id, pipeline, file, host;
  std::int64_t pid = 0;
  double started = 0, ended = 0;
  std::string state;  ///< running, done, failed, incomplete, interrupted, died
  int exit_code = -1;
  std::vector<TaskStatus> tasks;
  std::size_t damaged_lines = 0;
  std::vector<std::string> command;
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
