/// @file
/// The executing loop: takes a graph and a plan, starts what is missing within the machine's capacity, publishes what
/// comes back, and leaves the store whole however it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/plan/plan.h"
#include "pipeline/plan/slots.h"
#include "pipeline/run/exit_code.h"
#include "pipeline/run/failure.h"
#include "pipeline/run/runner.h"
#include "pipeline/run/start_checks.h"
#include "pipeline/run/task_phase.h"
#include "pipeline/store/lease.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

/// `publish_threads` of a whole run. Many, since a sync waits for the disk, which does several in the time of one.
inline constexpr int kPublishThreads = 8;

struct RunOptions {
  Capacity capacity;
  bool keep_going = true;     ///< false (`--fail-fast`): no new starts after a failure
  bool strict = false;        ///< A conflict ends the run with 5.
  bool resume = true;         ///< Continue from the state of earlier attempts.
  bool check_inputs = true;   ///< Read a task's inputs through before it starts; each object once in a run.
  bool check_configs = true;  ///< Ask each stage once (`--check`) about all new configs before the first start.
  double check_patience_s = kCheckPatienceS;  ///< Of check_configs.
  bool whole = true;                          ///< The whole pipeline was chosen, not a selection.
  bool wait_lease = true;   ///< Wait for a task that another run works on; false: leave it and end with 3.
  double grace_s = 120;     ///< Time for stages to stop after the first interrupt, or at their time limit.
  int publish_threads = 0;  ///< At most so many threads hash and sync outputs; 0: the loop does.
  LeaseOptions lease;       ///< `run` and `pipeline` are filled in
  std::string run_id;       ///< Empty: made of time and chance.
  /// Join the run `run_id`, which another process has begun. The process writes a separate journal, but not the run's
  /// plan, progress, summary and names for people.
  bool join = false;
  std::vector<bool> only;          ///< By task: may this process run it? Its inputs exist or it is blocked. Empty: all.
  std::vector<double> expected_s;  ///< By task, from estimate.h; 0: unknown. Orders starts and is recorded.
  /// Words of the command that ran this, up to the selection; a failure prints it with the failed task.
  std::vector<std::string> command;
};

/// An event of a run, in order. The journal and every display are made of these.
struct RunEvent {
  /// plan, start, progress, checkpoint, snapshot, publish, reuse, exit, retry, requeue, conflict, fail, block, wait
  /// (another run works on it), note, warn, stop, end
  std::string name;
  std::int64_t task = -1;  ///< index into the graph; -1 for the run itself
  int attempt = 0;
  Json detail = Json::object();
};

struct RunningTask {
  std::size_t task = 0;
  int attempt = 0;
  double started_s = 0;            ///< on the runner's clock
  double expected_s = -1;          ///< what it, or such tasks, took before; -1: unknown
  Json progress = Json::object();  ///< latest: {"what", "done", "total", …figures}
};

/// The state of a run at one moment.
struct RunState {
  const Graph* graph = nullptr;
  std::string run_id;
  std::span<const TaskPhase> phases;             ///< by task
  std::map<TaskPhase, std::size_t> counts;       ///< of the tasks that are needed
  std::vector<RunningTask> running;              ///< also those whose inputs are being verified
  std::map<std::size_t, std::string> elsewhere;  ///< ready tasks that other runs work on → who does
  double now_s = 0;
  double eta_s = -1;  ///< -1: unknown
  bool stopping = false;
};

class RunListener {
 public:
  virtual ~RunListener() = default;
  virtual void on_event(const RunEvent& event, const RunState& state) = 0;
  /// Called a few times per second while a task runs.
  virtual void on_tick(const RunState& state) { (void)state; }
};

/// Why a task did not succeed.
struct TaskFailure {
  std::size_t task = 0;
  Outcome outcome = Outcome::kPermanent;
  std::string reason;              ///< "exit code 70", "output 'model' is missing"
  std::vector<std::string> tail;   ///< last lines of its log, at most 20
  std::string log;                 ///< path; empty when it never started
  std::vector<std::string> rerun;  ///< the command that runs this task alone
};

struct RunSummary {
  int exit_code = kRunDone;
  std::string run_id;        ///< empty when there was nothing to do
  std::size_t executed = 0;  ///< attempts that ended in a publish
  std::size_t reused = 0;
  std::size_t failed = 0;
  std::size_t blocked = 0;
  std::size_t interrupted = 0;
  std::size_t conflicts = 0;
  double wall_s = 0;
  std::vector<TaskFailure> failures;
  std::vector<TaskPhase> phases;     ///< By task.
  std::vector<std::string> reports;  ///< Folders of the current reports.
  std::string relinked;              ///< For people, where links to results of other settings were removed; or empty.
  std::string store_error;           ///< Why the exit code is 4.
  std::string mistake;               ///< of ours, that ended the run: why the exit code is 70
};
/// As `summary.json` and the event `end` have it, ended now.
Json to_json(const Graph& graph, const RunSummary& summary);

/// Called between events: 0 continue, 1 stop gently, 2 kill. The command line answers from its signals.
using StopFunction = std::function<int()>;

/// Runs the tasks of `plan`, which lists selected, forced and needed tasks. Others may run in the same store at the
/// same time: the holder of its lease (lease.h) makes a task, and all others find it as a result. Errors of tasks are
/// in the summary.
/// @throws IoError of the store before anything started (exit 4). ConfigError when a task asks for more than the
/// machine has or a stage rejects its config (exit 2). Or our own mistake: the running stages were then asked to save
/// and end, and the summary is written.
RunSummary run(const Graph& graph, const Plan& plan, Store& store, Runner& runner, RunListener& listener,
               const RunOptions& options, const StopFunction& stop = {});

/// A word as a POSIX shell would read it back; for printing commands, never for running them.
std::string shell_quoted(const std::string& word);
std::string shell_command(const std::vector<std::string>& words);

}  // namespace pe::pipeline
