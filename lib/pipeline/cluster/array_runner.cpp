#include "pipeline/cluster/array_runner.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>
#include <vector>

#include "pipeline/cluster/allocation.h"
#include "pipeline/cluster/job_leases.h"
#include "pipeline/cluster/submission.h"
#include "pipeline/plan/frozen_graph.h"
#include "pipeline/plan/plan.h"
#include "pipeline/run/exit_code.h"
#include "pipeline/run/run_folder.h"
#include "pipeline/run/run_status.h"
#include "pipeline/store/attempt.h"
#include "pipeline/store/journal.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/json_fields.h"
#include "support/json_text.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;

namespace {

constexpr double kStateEvery = 10;  // seconds between two looks at an element from outside

struct Orders {
  Graph graph;
  std::vector<std::size_t> tasks;
  std::vector<std::string> command;
  double lead_s = 120;
};

Orders read_orders(const fs::path& path, const ElementOrder& order) {
  const std::string text = support::read_file(path);
  if (support::sha256_hex(text) != order.digest) {
    throw support::ArtifactError(cat("'", path.string(), "' differs from the submitted file"),
                                 "something has changed it; submit again");
  }
  const Json json = support::parse_json(text);
  if (support::text_in(json, "schema") != "pe-array/1")
    throw support::ArtifactError(cat("'", path.string(), "' is not an array of a submission (pe-array/1)"));
  Orders orders;
  try {
    orders.graph = thaw(json.at("graph"));
    orders.command = json.at("command").get<std::vector<std::string>>();
    orders.lead_s = json.at("lead_s");
    for (const Json& element : json.at("elements")) {
      if (element.at(0) == order.index) orders.tasks = element.at(1).get<std::vector<std::size_t>>();
    }
  } catch (const Json::exception& error) {
    throw support::ArtifactError(cat("'", path.string(), "' is corrupt: ", error.what()));
  }
  if (orders.tasks.empty())
    throw support::ArtifactError(cat("array ", order.token, " of run ", order.run, " has no element ", order.index));
  for (const std::size_t i : orders.tasks) {
    if (i >= orders.graph.tasks.size()) throw support::ArtifactError(cat("'", path.string(), "' names no such task"));
  }
  return orders;
}

/// Passes events on, writes a small file for `status` every few seconds, and notices a job without work.
class MonitorState : public RunListener {
 public:
  MonitorState(RunListener& listener, fs::path path, double most_idle_s)
      : listener_(listener), path_(std::move(path)), most_idle_s_(most_idle_s) {}
  void on_event(const RunEvent& event, const RunState& state) override {
    listener_.on_event(event, state);
    if (event.name == "start" || event.name == "exit") last_ = -1;  // the next look sees the new phase
  }
  void on_tick(const RunState& state) override {
    listener_.on_tick(state);
    const bool idle = state.running.empty() && !state.elsewhere.empty();
    if (!idle) idle_since_ = -1;
    if (idle && idle_since_ < 0) idle_since_ = state.now_s;
    if (idle && state.now_s - idle_since_ >= most_idle_s_) waits_for_ = state.elsewhere.begin()->second;
    if (last_ >= 0 && state.now_s - last_ < kStateEvery) return;
    last_ = state.now_s;
    try {
      support::write_file_atomically(path_, support::json_text(to_json(*state.graph, state)) + "\n", false);
    } catch (const support::IoError&) {
      // Tells how far things are, decides nothing.
    }
  }

  /// The owner of the leases of all remaining tasks for that long; empty while this job has work.
  const std::string& waits_for() const { return waits_for_; }

 private:
  RunListener& listener_;
  fs::path path_;
  double most_idle_s_;
  double last_ = -1, idle_since_ = -1;
  std::string waits_for_;
};

/// One element at work.
class ElementRun {
 public:
  ElementRun(const ElementOrder& order, Slurm& slurm, Runner& runner, RunListener& listener, const StopFunction& stop)
      : order_(order),
        slurm_(slurm),
        quick_slurm_(slurm.within(kQuick_s)),
        runner_(runner),
        listener_(listener),
        stop_(stop),
        store_(order.store, {.lists_records = false}),
        folder_(store_.runs_folder() / order.run),
        job_(own_job()),
        orders_(read_orders(folder_ / "arrays" / (order.token + ".json"), order)) {}

  int run_element() {
    tell("element-start", {});
    leave_cancelled();
    if (orders_.tasks.empty()) return end(kRunIncomplete, "it was cancelled before it began");
    own_.assign(orders_.graph.tasks.size(), false);
    for (const std::size_t i : orders_.tasks) own_[i] = true;
    // Tasks of other elements are not weighed against this job's CPUs and memory.
    Resources nothing;
    nothing.mem_bytes = 0;
    for (std::size_t i = 0; i < own_.size(); ++i) {
      if (!own_[i]) orders_.graph.tasks[i].resources = nothing;
    }
    const std::optional<Plan> plan = wait_for_inputs();
    if (!plan) return stopped(/*progress=*/false);
    if (is_done(*plan)) {
      for (const std::size_t i : orders_.tasks) {
        Json detail{{"event", "reuse"}, {"task", orders_.graph.tasks[i].id}, {"key", plan->tasks[i].task_key}};
        Journal(folder_).append(std::move(detail));
      }
      return end(kRunDone, "its results are in the store");
    }
    RunOptions options;
    options.capacity = capacity();
    options.run_id = order_.run;
    options.join = true;
    options.only = own_;
    options.whole = false;
    options.check_configs = false;  // done when it was submitted
    options.publish_threads = order_.publish_threads;
    options.command = orders_.command;
    options.lease.job_ended = job_ended_by(quick_slurm_);
    // The job may use its early warning for saving, except the last ten seconds.
    options.grace_s = std::max(5.0, orders_.lead_s - 10);
    MonitorState watched(listener_, folder_ / "state" / cat(order_.token, "_", order_.index, ".json"),
                         order_.most_idle_s);
    const StopFunction stop = [&] {
      const int level = stop_ ? stop_() : 0;
      return level == 0 && job_ && !watched.waits_for().empty() ? 1 : level;
    };
    const RunSummary summary = run(orders_.graph, *plan, store_, runner_, watched, options, stop);
    const bool failed = summary.exit_code == kRunFailed;
    // A task of a pack may have failed before the others were asked to stop.
    const auto is_over = [&](std::size_t i) {
      return summary.phases[i] == TaskPhase::kFailed || summary.phases[i] == TaskPhase::kBlocked;
    };
    if (failed) std::erase_if(orders_.tasks, is_over);
    const bool remains = failed ? !orders_.tasks.empty() : summary.exit_code == kRunIncomplete;
    if (remains && (stop_asked() || !watched.waits_for().empty()))
      return stopped(summary.executed > 0, stop_asked() ? "" : watched.waits_for(), summary.exit_code);
    return end(summary.exit_code, "");
  }

 private:
  bool stop_asked() const { return stop_ && stop_() > 0; }

  void tell(const std::string& event, Json detail) {
    detail["event"] = event;
    detail["token"] = order_.token;
    detail["index"] = order_.index;
    if (job_) {
      detail["job"] = job_->id();
      detail["job_id"] = job_->job;
      detail["restarts"] = job_->restarts;
      detail["node"] = job_->node;
    }
    Journal(folder_).append(std::move(detail));
  }

  int end(int code, const std::string& why) {
    Json detail{{"code", code}};
    if (!why.empty()) {
      detail["why"] = why;
      std::printf("%s\n", why.c_str());
    }
    tell("element-end", std::move(detail));
    return code;
  }

  bool is_cancelled() const {
    const Cancellation cancelled = read_cancelled(store_, order_.run);
    return std::all_of(orders_.tasks.begin(), orders_.tasks.end(),
                       [&](std::size_t i) { return cancelled.covers(orders_.graph.tasks[i].plan_key); });
  }

  void leave_cancelled() {
    const Cancellation cancelled = read_cancelled(store_, order_.run);
    std::erase_if(orders_.tasks, [&](std::size_t i) { return cancelled.covers(orders_.graph.tasks[i].plan_key); });
  }

  static bool is_there(const PlannedTask& task) { return task.state == TaskState::kReuse; }

  bool is_done(const Plan& plan) const {
    return std::all_of(orders_.tasks.begin(), orders_.tasks.end(),
                       [&](std::size_t i) { return is_there(plan.tasks[i]); });
  }

  /// Tasks that failed or were cancelled in this run, and their followers. A partial report does not wait for these.
  std::vector<bool> lost_tasks() const {
    const RunStatus status = read_run(store_, order_.run);
    const Cancellation cancelled = read_cancelled(store_, order_.run);
    const std::vector<Task>& tasks = orders_.graph.tasks;
    std::vector<bool> lost(tasks.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const TaskStatus* const known = status.find(tasks[i].id);
      lost[i] = (known && known->phase == "failed") || cancelled.covers(tasks[i].plan_key);
      if (tasks[i].allow_partial) continue;
      for (const Edge& edge : tasks[i].inputs) lost[i] = lost[i] || lost[edge.producer];
    }
    return lost;
  }

  /// Whether everything is there that tasks of other elements make for these.
  bool inputs_there(const Plan& plan) const {
    std::optional<std::vector<bool>> lost;
    for (const std::size_t i : orders_.tasks) {
      if (is_there(plan.tasks[i])) continue;
      for (const Edge& edge : orders_.graph.tasks[i].inputs) {
        if (own_[edge.producer] || is_there(plan.tasks[edge.producer])) continue;
        if (!orders_.graph.tasks[i].allow_partial) return false;
        if (!lost) lost = lost_tasks();
        if (!(*lost)[edge.producer]) return false;
      }
    }
    return true;
  }

  /// The plan of the own tasks, once results of other elements are visible; file systems may show them late. Nothing
  /// when the job is asked to stop.
  std::optional<Plan> wait_for_inputs() {
    PlanOptions options;
    options.selected = own_;
    options.known_suffices = false;
    const double began = support::steady_s();
    for (double pause_s = 0.25;; pause_s = std::min(pause_s * 2, 15.0)) {
      Plan plan = make_plan(orders_.graph, StoreReader(store_), options);
      const double waited = support::steady_s() - began;
      // If inputs are still missing then, the run reports it and calls their readers blocked.
      if (inputs_there(plan) || waited >= order_.input_wait_s) return plan;
      for (double slept = 0; slept < pause_s; slept += 0.1) {
        if (stop_asked()) return std::nullopt;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
      store_ = Store(order_.store, {});  // reads folders and index again
    }
  }

  Capacity capacity() const {
    Capacity capacity = allocated(detect_capacity());
    // Where a site takes no request for memory, the job has what the node gives; counting it would only refuse.
    for (const std::size_t i : orders_.tasks) {
      if (!own_environment("SLURM_MEM_PER_NODE") && !own_environment("SLURM_MEM_PER_CPU"))
        capacity.mem_bytes = std::max(capacity.mem_bytes, orders_.graph.tasks[i].resources.mem_bytes);
    }
    return capacity;
  }

  struct SavedSteps {
    std::int64_t best = -1;  ///< the last step that any attempt saved
    std::int64_t still = 0;  ///< the run's last attempts that saved no new one
    bool attempted = false;  ///< by this run
  };

  /// Of the attempts of a task. A stage that cannot resume saves no step: its step is the progress that it reported.
  SavedSteps saved_steps(std::size_t i) const {
    SavedSteps saved;
    const bool resumes = orders_.graph.tasks[i].stage->resumes;
    for (const fs::path& attempt : store_.attempts(orders_.graph.tasks[i].plan_key)) {
      const Json exit = read_of_attempt(attempt, "exit.json");
      std::int64_t step = -1;
      bool ours = saved.attempted;  // one that was cut off without a word
      if (exit.is_object()) {
        if (resumes) step = support::field_or(exit, "step", std::int64_t{-1});
        ours = support::text_in(exit, "run") == order_.run;
      }
      saved.attempted = saved.attempted || ours;
      saved.still = step > saved.best || !ours ? 0 : saved.still + 1;
      saved.best = std::max(saved.best, step);
    }
    return saved;
  }

  /// Five minutes at first, then twice as long with each restart, up to an hour.
  double delay_s() const {
    return std::min(3600.0, 300.0 * static_cast<double>(1 << std::min<std::int64_t>(job_->restarts, 4)));
  }

  /// After a signal to stop, or without work since `waits_for` does it: requeues the job, unless it was cancelled or
  /// makes no progress. A finished task of a pack is progress, too. `code` is the run's exit code.
  int stopped(bool progress, const std::string& waits_for = "", int code = kRunIncomplete) {
    StopFacts facts;
    facts.waits_for = waits_for;
    facts.moved = progress;
    facts.cancelled = is_cancelled();
    facts.lead_s = orders_.lead_s;
    if (job_) facts.restarts = job_->restarts;
    const Plan plan = make_plan(orders_.graph, StoreReader(store_), {own_, false, false});
    for (const std::size_t i : orders_.tasks) {
      if (is_there(plan.tasks[i])) continue;
      const SavedSteps saved = saved_steps(i);
      facts.keeps_steps = facts.keeps_steps || saved.best >= 0 || orders_.graph.tasks[i].is_trajectory();
      facts.still = std::max(facts.still, saved.still);
      facts.moved = facts.moved || (saved.attempted && saved.still == 0);
    }
    const std::string told = waits_for.empty() ? "told to stop" : "it gives its place up";
    if (is_done(plan)) return end(code == kRunFailed ? code : kRunDone, told + ", with everything done");
    if (!facts.cancelled && job_) facts.row = slurm_.job(job_->job);
    const StopDecision decision = decide_after_stop(facts);
    if (decision.kind == StopDecision::Kind::kRequeue) {
      tell("element-requeue", {{"why", decision.why}});
      std::printf("%s; queued again: %s\n", told.c_str(), decision.why.c_str());
      std::fflush(stdout);
      const std::string failed = slurm_.requeue(job_->id());
      // Slurm itself delays a requeued job by two minutes. The longer the other owner takes, the less often this job
      // looks.
      if (failed.empty() && !waits_for.empty()) slurm_.delay(job_->id(), delay_s());
      if (failed.empty()) return kRunDone;
      return end(support::kExitCheckpointed, cat("it could not be queued again: ", failed));
    }
    const std::string why = cat(told, ": ", decision.why);
    if (decision.kind == StopDecision::Kind::kGiveUp) {
      for (const std::size_t i : orders_.tasks) {
        if (is_there(plan.tasks[i])) continue;
        tell("fail", {{"task", orders_.graph.tasks[i].id}, {"class", "no-progress"}, {"reason", decision.why}});
      }
      return end(kRunFailed, why);
    }
    return end(decision.kind == StopDecision::Kind::kEnd ? code : static_cast<int>(support::kExitCheckpointed), why);
  }

  // The run loop waits for its answers, and must send heartbeats meanwhile.
  static constexpr double kQuick_s = 10;

  const ElementOrder& order_;
  Slurm& slurm_;
  Slurm quick_slurm_;
  Runner& runner_;
  RunListener& listener_;
  const StopFunction& stop_;
  Store store_;
  fs::path folder_;
  std::optional<OwnJob> job_;
  Orders orders_;
  std::vector<bool> own_;
};

}  // namespace

int run_element(const ElementOrder& order, Slurm& slurm, Runner& runner, RunListener& listener,
                const StopFunction& stop) {
  return ElementRun(order, slurm, runner, listener, stop).run_element();
}

}  // namespace pe::pipeline
