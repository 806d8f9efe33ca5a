/// @file
/// How `run` (run.h) works inside: one Execution per run. Everything happens on one thread between two waits for the
/// runner. A message or the end of a stage changes the state of its task. Tasks with all inputs become ready, and ready
/// tasks start as slots allow. The parts:
///
/// * `task_states`: what each task waits for; no I/O.
/// * `input_checks`: reading inputs through before a start.
/// * `attempts`: starts stages, reads their events, handles their ends.
/// * `publishing`: outputs and snapshots into the store.
/// * `publisher`: the threads that read, hash and sync.
/// * `friendly_names`: out/ and reports/, as results come.
/// * `run_estimate`: how long it takes.
/// * `run_context`: state that these share.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "pipeline/plan/key.h"
#include "pipeline/run/attempts.h"
#include "pipeline/run/gpu_lease.h"
#include "pipeline/run/input_checks.h"
#include "pipeline/run/publish_state.h"
#include "pipeline/run/publish_threads.h"
#include "pipeline/run/run.h"
#include "pipeline/run/run_context.h"
#include "pipeline/run/run_estimate.h"

namespace pe::pipeline {

class Execution {
 public:
  Execution(const Graph& graph, const Plan& plan, Store& store, Runner& runner, RunListener& listener,
            const RunOptions& options, const StopFunction& stop);
  RunSummary run();

 private:
  void begin();
  void take_over_plan();
  void loop();
  bool is_over() const;
  RunSummary end();
  /// After an exception in the loop: stages save and end as they do at an interrupt. False once that takes too long.
  bool go_on_to_stop();
  /// Whether stages and publications have had their time to end since then, or the user does not want to wait.
  bool is_late() const;

  // ---- what the loop does
  void poll_stop();
  /// Collects the answers of the publisher's threads. True when there were any.
  bool collect_answers();
  /// Looks at every task whose inputs are settled now, and reports blocked ones.
  void process_ready_tasks();
  /// A task whose inputs are known: reuses its result, or makes it ready.
  void refresh(std::size_t i);
  /// Takes what the store has under the task's key. True when the task need not start: that is all that is needed, or
  /// the store cannot be read.
  bool ask_for_bytes(std::size_t i);
  bool reuse_if_there(std::size_t i);
  bool take_if_there(std::size_t i);
  void start_ready();
  void start_in_order();
  /// Whether a task may start although `head`, which is more urgent, waits for parts of the machine: when it leaves
  /// what `head` gathers, or ends before `head` could start.
  bool may_pass(std::size_t i, std::size_t head);
  double earliest_start_s(std::size_t i) const;
  void tick();
  void give_back(const Slot& slot);
  void wake_at(double when_s);
  void refresh_shown();

  RunContext run_;
  const StopFunction& stop_;
  RunEstimate estimate_;
  Slots slots_;
  GpuLeases gpu_leases_;
  std::optional<double> head_starts_s_;  // of one pass over the ready tasks
  std::shared_ptr<KeyMaker> keys_;
  std::unique_ptr<PublishThreads> publisher_;
  std::unique_ptr<FriendlyNames> names_;
  std::unique_ptr<PublishState> publishing_;
  std::unique_ptr<InputChecks> checks_;
  std::unique_ptr<Attempts> attempts_;
  double started_s_ = 0;
  double last_tick_s_ = 0;
  double last_progress_s_ = 0;
  double next_wake_s_ = -1;
  double next_estimate_s_ = 0, end_s_ = -1;  // of the run's end; -1: unknown
  double stop_since_s_ = -1;
  std::deque<RunnerEvent> heard_;  // events of the runner that are not handled yet
  bool stops_for_an_error_ = false;
  bool grace_over_ = false;
  bool store_failure_told_ = false;
};

}  // namespace pe::pipeline
