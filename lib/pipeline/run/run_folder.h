/// @file
/// The folder of a run, written during the run and read by `status` and `logs` (run_status.h), also of other processes.
///
///     runs/<run id>/plan.json      pe-run/1: host, time, command, and every needed task with its keys
///                   journal.*      journal.h
///                   progress.json  pe-progress/1: counts and running tasks, replaced about once a second
///                   summary.json   pe-run-summary/1: written at the end
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "pipeline/file/graph.h"
#include "pipeline/plan/plan.h"
#include "pipeline/run/run.h"
#include "pipeline/store/journal.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

/// "20261121-194512-37503f": sorts by time, down to the millisecond; the last two digits are chance. After `newest`,
/// the name of a run of the same store that a clock ahead of this one has made, it is a millisecond later.
std::string new_run_id(const std::string& newest = {});

/// The contents of plan.json. Its tasks go to `take` one by one. A tree of JSON of 100,000 tasks is never made.
/// @throws IoError; ArtifactError when it is not a plan of a run, also after `take` was called
Json read_plan(const std::filesystem::path& run_folder, const std::function<void(const Json& task)>& take);

class RunFolder {
 public:
  /// Makes the folder and writes plan.json. Without an id in the options it makes one that no other run has. Joining a
  /// run, it only adds a journal of this process. @throws IoError
  RunFolder(const Store& store, const Graph& graph, const Plan& plan, const RunOptions& options);
  const std::string& run_id() const { return run_id_; }
  /// Adds the event to the journal. False when that failed.
  bool add(const Graph& graph, const RunEvent& event);
  void write_progress(const RunState& state);
  void write_summary(const Graph& graph, const RunSummary& summary);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::string run_id_;
  std::filesystem::path path_;
  Journal journal_;
  bool joined_ = false;
};

Json to_json(const Graph& graph, const RunState& state);

}  // namespace pe::pipeline
