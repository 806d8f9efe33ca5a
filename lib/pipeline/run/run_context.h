/// @file
/// Shared state of the parts of a run (execution.h): its objects, its reports, and the reasons for an early end.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "pipeline/run/run.h"
#include "pipeline/run/run_folder.h"
#include "pipeline/run/task_states.h"
#include "pipeline/store/lease.h"
#include "support/error.h"

namespace pe::pipeline {

class RunContext {
 public:
  RunContext(const Graph& graph, const Plan& plan, Store& store, Runner& runner, RunListener& listener,
             const RunOptions& options);

  const Graph& graph;
  const Plan& plan;
  Store& store;
  Runner& runner;
  const RunOptions& options;
  std::unique_ptr<TaskStates> states;
  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<Leases> leases;
  RunState shown;
  RunSummary summary;
  bool no_new_starts = false;
  int stop_level = 0;  ///< 1: stages were asked to stop; 2: killed

  const Task& task(std::size_t i) const { return graph.tasks[i]; }

  /// Writes it to the journal and passes it to the listeners.
  void emit(const RunEvent& event);
  void tell_state() {
    if (summary.mistake.empty()) listener_.on_tick(shown);
  }
  void warn(std::string text) { emit({"warn", -1, 0, {{"text", std::move(text)}}}); }
  void warn(std::size_t task, int attempt, std::string text);
  void note(std::size_t task, std::string text);

  /// Releases the leases of a task: of its plan key and of its task key.
  void release(std::size_t task);
  /// Takes both, once. A lease on the key too, since two pipelines whose first stages differ may come to equal inputs.
  Leases::Answer acquire(std::size_t task);

  /// No task starts any more, and only the journal gets the following events: a listener may be the cause.
  void mistake(const std::string& what);
  /// Nothing new starts, what runs is asked to stop, the run ends with 4.
  void store_failed(const std::string& why);
  /// Does what changes the store. False when that failed, and with it the run.
  template <typename Body>
  bool store_changes(Body&& body) {
    try {
      body();
      return true;
    } catch (const support::IoError& error) {
      store_failed(error.diagnostics().front().message);
      return false;
    }
  }
  /// Writes files that can be made again (the index, hints, names for people): when that fails the run continues, and
  /// warns once.
  template <typename Body>
  void cache_changes(Body&& body) {
    try {
      body();
    } catch (const support::IoError& error) {
      cache_failed(error.diagnostics().front().message);
    }
  }

 private:
  void cache_failed(const std::string& why);

  RunListener& listener_;
  std::map<std::size_t, std::string> leased_keys_;  // by task
  bool journal_failed_ = false;
  bool cache_failed_ = false;
};

}  // namespace pe::pipeline
