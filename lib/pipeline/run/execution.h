/// @file
/// How `run` (run.h) works inside: one Execution a run. Everything happens on one thread between two waits for the
/// runner: what a stage said or how it ended changes the state of its task, tasks whose inputs are all there become
/// ready, and ready tasks start as slots allow. The parts, a file each:
///
///     execution.cpp           set-up, the loop, the end
///     execution_inputs.cpp    what a task waits for: blocked, reused, or ready
///     execution_start.cpp     slots, attempts, the task file, what stages say while they run
///     execution_publish.cpp   outputs and snapshots into the store
///     execution_exit.cpp      what the end of a stage means: done, again, failed
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pipeline/plan/ready_queue.h"
#include "pipeline/run/gpu_lease.h"
#include "pipeline/run/publisher.h"
#include "pipeline/run/run.h"
#include "pipeline/run/status.h"
#include "support/error.h"

namespace pe::artifact {
struct Recipe;
}

namespace pe::pipeline {

class Execution {
 public:
  Execution(const Graph& graph, const Plan& plan, Store& store, Runner& runner, RunListener& listener,
            const RunOptions& options, const StopFunction& stop);
  RunSummary go();

 private:
  struct Node {
    TaskPhase phase = TaskPhase::kSkipped;
    bool forced = false;
    std::optional<Result> result;             // of a task without snapshots
    std::map<std::string, Result> snapshots;  // by label
    std::vector<InputDigest> inputs;          // once all are known
    std::vector<InputRecord> input_records;
    Json preimage;
    std::string key;
    Attempts attempts;
    double mem_factor = 1;
    double not_before_s = 0;
    double orphan_since_s = -1;
    int lease_polls = 0;  // how often it was found to be someone else's
    int input_repairs = 0;
    std::string reason;           // of a failure or block
    std::string blocked_by;       // id of the task at the root of a block; empty when the lack is its own
    bool made = false;            // this run published something for it
    std::set<std::string> fresh;  // snapshots that this run published
    int number = 0;               // of the latest attempt
    int first_number = 0;         // of this run's first attempt
  };

  struct Active {
    std::size_t task = 0;
    Slot slot;
    fs::path folder;
    int attempt = 0;
    double started_s = 0;
    double started_unix = 0;
    std::int64_t started_step = -1;  // the last checkpoint before this attempt
    std::int64_t step = -1;
    std::int64_t peak_rss_bytes = 0;  // as the stage itself says; 0: it does not
    bool stop_sent = false;
    bool resumed = false;
    Json progress = Json::object();
    Json machine = Json::object();  // build, library and device, as the stage itself says
    std::vector<std::size_t> snapshots;  // indices into Task::snapshots that were asked for
    std::set<std::size_t> submitted;     // to the publisher; published ones are among them
    std::set<std::size_t> published;
    double kill_at_s = -1;  // it ran out of time and was asked to stop; then it is killed
    bool timed_out = false;
    bool lease_lost = false;  // somebody broke our lease while this process was stopped
    bool superseded = false;  // and published meanwhile: the stage was stopped for it
    // After the stage has ended.
    RunnerEvent exit;
    Outcome outcome = Outcome::kDone;
    std::string reason;
    bool moved = false;
    int publishing = 0;      // jobs under way
    bool concluded = false;  // its last outputs are under way
    std::string broken;      // an output that is no whole artifact
    std::string changed;     // an external input that is not what the key says
    bool unstored = false;   // the store could not be written
  };
  // ---- set-up
  void begin();
  bool will_run(std::size_t i) const;
  void refuse_impossible() const;
  /// Each stage reads all configs that it is about to get, once, before anything starts.
  void check_configs() const;
  /// What a task took when its plan was last carried out, else what its stage took on average, else a second.
  std::vector<double> expected_seconds() const;

  // ---- states
  void set_phase(std::size_t i, TaskPhase phase);
  void emit(RunEvent event);
  const Result* result_of(const Edge& edge) const;
  std::int64_t step_of(const Edge& edge) const;
  std::string producer_id(const Edge& edge) const;
  bool is_many(const Task& task, const std::string& role) const;
  /// Looks at a waiting task: blocks it, reuses its result, or makes it ready.
  void evaluate(std::size_t i);
  bool settled(std::size_t i) const;
  bool twin_made_it(std::size_t i) const;
  /// A task that the plan did not need, but that now has to be made again.
  void activate(std::size_t i);
  /// Takes what the store has under the task's key. True when that is all that is needed.
  bool look_up(std::size_t i);
  std::vector<std::size_t> needed_snapshots(std::size_t i) const;
  void remember_plan(std::size_t i);
  void notify_readers(std::size_t i);
  /// `root` is the id of the task that failed or lacks something, when that is another one.
  void block(std::size_t i, const std::string& reason, const std::string& root = {});
  /// The store failed: nothing new starts, what runs is asked to stop, the run ends with 4.
  void store_failed(const std::string& why);
  template <typename Body>
  bool guarded(Body&& body) {
    try {
      body();
      return true;
    } catch (const support::IoError& error) {
      store_failed(error.diagnostics().front().message);
      return false;
    }
  }

  // ---- starting
  void start_ready();
  void wake_at(double when_s);
  void give_back(const Slot& slot);
  /// False when the task did not start; it is then failed, or ready again later.
  bool start(std::size_t i, const Slot& slot);
  /// @throws ArtifactError when an object that the task will read is not what its name says.
  void require_intact_inputs(const Task& task) const;
  /// Takes the task's lease. False when another run works on it, or did and has left its result.
  bool lease(std::size_t i);
  static std::string file_name(const OutputDescription& output);
  Json task_document(std::size_t i, const Active& active, const std::vector<fs::path>& before) const;
  /// The newest whole snapshot of a trajectory before all that are asked for, as `task.json` names it; null when none.
  Json earlier_snapshot(std::size_t i, const Active& active) const;
  static std::string key_of_attempt(const fs::path& attempt);
  /// Unhashed `workers` that are `auto` take the slot's CPUs.
  static void fill_workers(const support::Schema& fields, std::int64_t cpus, Json& config);

  // ---- messages of stages
  void on_message(std::uint64_t ticket, Active& active, const Json& message);

  // ---- publishing
  Record record_for(const Active& active, std::int64_t step, ResultStatus status) const;
  /// What the manifest of a report says of its making.
  artifact::Recipe recipe_for(const Active& active) const;
  /// Hands the outputs of an attempt, or of one snapshot (an index, else -1), to the publisher.
  void submit(std::uint64_t ticket, Active& active, int snapshot, ResultStatus status);
  /// What the publisher has done since.
  void collect_published();
  void on_published(Active& active, const PublishAnswer& answer);
  /// Tells of a record that stands now. Returns the result that is valid.
  Result announce(const Active& active, const Published& published, const Record& record, Json detail);
  Active* find_active(std::uint64_t ticket);
  /// Without a run: what reads a diverged artifact has diverged too.
  void inherit_divergence(std::size_t i, const std::string& parent);

  // ---- ends of stages
  void on_exit(const RunnerEvent& event);
  /// Once no snapshot of an ended attempt is under way: acts on how it ended.
  void conclude(std::uint64_t ticket);
  /// Once all its outputs are published, or one of them cannot be.
  void complete(std::uint64_t ticket);
  /// Takes an attempt that has ended off the books, its lease included.
  Active take(std::uint64_t ticket);
  /// After a success: logs stay, the rest goes. A trajectory keeps its newest checkpoints, since a later step continues
  /// from there.
  void clean_up(const Task& task);
  void write_exit(const Active& active, const RunnerEvent& event, Outcome outcome);
  void after_failure(std::size_t i, const Active& active, Outcome outcome, const std::string& reason, bool moved);
  void fail(std::size_t i, Outcome outcome, const std::string& reason, const fs::path& attempt);
  void again(std::size_t i, double delay_s);
  /// Exit 3: looks whether an input is damaged. If so its producer runs once more, and this task after it.
  bool repair_inputs(std::size_t i, const Active& active);

  // ---- the loop
  void stop_stages(int signal);
  void poll_stop();
  /// Stops what runs longer than it may.
  void enforce_time();
  /// Heartbeats. What another run took over and finished is stopped here.
  void tend_leases();
  bool results_there(std::size_t i) const;
  void loop();
  void refresh_state();
  /// What a task takes: as the plan estimates it from records, else as tasks of its stage took; -1: unknown.
  double expected_of(std::size_t i) const;
  /// Seconds to the end, from what tasks of each stage took; -1 when some stage never ran.
  double estimate() const;

  // ---- the end
  RunSummary end();

  const Graph& graph_;
  const Plan& plan_;
  Store& store_;
  Runner& runner_;
  RunListener& listener_;
  const RunOptions& options_;
  const StopFunction& stop_;
  Slots slots_;
  GpuLeases gpu_leases_;
  std::vector<Node> nodes_;
  std::vector<std::vector<std::size_t>> readers_;
  std::map<std::size_t, std::vector<std::size_t>> twins_;  // task → tasks that wait for it, having its plan key
  std::vector<double> seconds_;
  mutable std::map<std::string, std::pair<double, int>> known_labels_;  // stage label → (seconds, tasks)
  std::optional<ReadyQueue> queue_;
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<Leases> leases_;
  std::unique_ptr<Publisher> publisher_;
  std::map<std::uint64_t, Active> running_;
  std::map<std::uint64_t, Active> ending_;      // ended, and not settled yet: their outputs are being published
  std::multiset<std::string> busy_;             // plan and task keys at work
  std::set<std::size_t> active_reports_steps_;  // tasks that report checkpoints
  std::vector<const Resources*> refused_;
  std::set<std::size_t> repaired_;  // producers of damaged objects that were sent to work again
  std::uint64_t last_ticket_ = 0;
  double started_s_ = 0;
  double next_wake_s_ = -1;
  double stop_since_s_ = -1;
  int stop_level_ = 0;
  bool grace_over_ = false;
  bool no_new_starts_ = false;
  bool journal_failed_ = false;
  RunState state_;
  RunSummary summary_;
};

}  // namespace pe::pipeline
