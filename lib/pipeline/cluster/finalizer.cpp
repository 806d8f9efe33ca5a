#include "pipeline/cluster/finalizer.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "pipeline/cluster/job_states.h"
#include "pipeline/cluster/submit_lease.h"
#include "pipeline/cluster/too_little_memory.h"
#include "pipeline/plan/plan.h"
#include "pipeline/run/exit_code.h"
#include "pipeline/run/run_folder.h"
#include "pipeline/run/run_status.h"
#include "pipeline/run/view.h"
#include "pipeline/store/journal.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/json_text.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;

namespace {

class GoingOn {
 public:
  GoingOn(Store& store, const std::string& run, Slurm& slurm, const std::string& own_job)
      : store_(store), run_(run), slurm_(slurm), own_job_(own_job), folder_(store.runs_folder() / run) {
    auto submission = read_submission(store, run);
    if (!submission)
      throw support::ArtifactError(cat("run ", run, " is not a submission"), "`pe-pipeline run` continues it");
    submission_ = *std::move(submission);
    if (!is_own(submission_, slurm_))
      throw support::ConfigError(cat("run ", run, " was submitted by ", submitter(submission_), "; here is user ",
                                     support::quote(slurm_.user()), " on cluster ", support::quote(slurm_.cluster())),
                                 {}, "only there can it be continued");
    graph_ = read_graph(store, run);
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) by_key_.emplace(graph_.tasks[i].plan_key, i);
    look();
  }

  LastReport go(const std::function<void(const std::string&)>& tell) {
    SubmitLease lease(store_, submission_.pipeline, slurm_, tell);
    const auto rows = slurm_.own_jobs();
    if (!rows) {
      report_.sent.failed = slurm_.trouble();
      return report_;
    }
    live_ = live_tasks(store_, {submission_}, *rows);
    add_adopted(*rows);
    // After the queue: a task that ended in between is in the store. Its record may reach this machine a little later.
    look();
    for (int waits = 0; lacks_a_record() && waits < kRecordWaits; ++waits) {
      if (waits == 0) tell("waiting up to two minutes for a result that the journal names and the store lacks");
      lease.send_heartbeat();
      std::this_thread::sleep_for(kRecordWait);
      look();
    }
    SendOptions options;
    options.tell = tell;
    options.heartbeat = [&] { lease.send_heartbeat(); };
    options.own_job = own_job_;
    options.skip = pointless();
    if (submission_.max_in_queue > 0) {
      const auto there = std::count_if(rows->begin(), rows->end(), [&](const JobRow& row) {
        return !is_final(row.state) && row.array_job != own_job_;
      });
      options.room = std::max<std::int64_t>(0, submission_.max_in_queue - there);
    }
    const auto sent = sent_jobs(store_, run_);
    const bool left =
        std::any_of(submission_.arrays.begin(), submission_.arrays.end(), [&](const SubmittedArray& array) {
          const auto place = static_cast<std::size_t>(&array - submission_.arrays.data());
          return array.live_job.empty() && !sent.count(array.token) &&
                 std::find(options.skip.begin(), options.skip.end(), place) == options.skip.end();
        });
    // Who still works will need a last job after it, too.
    if (left || !live_.by_plan_key.empty()) {
      fs::remove(folder_ / "summary.json");  // of an end that this run had before: it works again
      report_.sent = send(store_, submission_, slurm_, options);
    } else {
      note_lost_to_memory(store_, {submission_}, *rows, slurm_);  // nothing asks for a run that has ended
      tie_up(/*show=*/true);
    }
    return report_;
  }

  bool everything_is_there() const {
    return std::all_of(plan_.tasks.begin(), plan_.tasks.end(), [](const PlannedTask& task) {
      return task.state == TaskState::kReuse || task.state == TaskState::kNotNeeded;
    });
  }

  /// The summary, and with `show` the names for people.
  void tie_up(bool show) {
    RunSummary summary = sum_up();
    summary.wall_s = support::unix_time() - status_.started;
    if (show) {
      ViewChange shown = show_all(graph_, plan_, store_, graph_.root, run_, false);
      report_.warnings = std::move(shown.odd);
      summary.reports = std::move(shown.reports);
    }
    support::write_file_atomically(folder_ / "summary.json", support::json_text(to_json(graph_, summary), 1) + "\n",
                                   store_.durable());
    report_.ended = true;
    report_.exit_code = summary.exit_code;
    report_.summary = cat(summary.executed, " made, ", summary.reused, " reused");
    if (summary.failed > 0) report_.summary += cat(", ", summary.failed, " failed");
    if (summary.blocked > 0) report_.summary += cat(", ", summary.blocked, " blocked");
    if (summary.interrupted > 0) report_.summary += cat(", ", summary.interrupted, " unfinished");
  }

 private:
  static constexpr int kRecordWaits = 24;
  static constexpr std::chrono::seconds kRecordWait{5};

  /// Reads the journals, then the store.
  void look() {
    status_ = read_run(store_, run_);
    PlanOptions options;
    for (const Task& task : graph_.tasks) options.selected.push_back(status_.find(task.id) != nullptr);
    plan_ = make_plan(graph_, StoreReader(store_), options);
  }

  /// Whether a task is done by the journals, and the store does not know its result.
  bool lacks_a_record() const {
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      const TaskStatus* const task = status_.find(graph_.tasks[i].id);
      if (task && task->phase == "done" && plan_.tasks[i].state == TaskState::kRun) return true;
    }
    return false;
  }

  /// Tasks of earlier submissions' jobs, which this one only waits for.
  void add_adopted(const std::vector<JobRow>& rows) {
    for (const SubmittedArray& array : submission_.arrays) {
      if (array.live_job.empty()) continue;
      for (const JobRow& row : rows) {
        const auto element = array.elements.find(row.index);
        if (row.array_job != array.live_job || element == array.elements.end() || !pipeline::is_live(row)) continue;
        for (const std::size_t i : element->second)
          live_.by_plan_key[submission_.tasks[i].plan_key] = {row.array_job, row.index};
      }
    }
  }

  bool is_done(std::size_t i) const { return plan_.tasks[i].state == TaskState::kReuse; }
  bool is_live(std::size_t i) const { return live_.by_plan_key.count(graph_.tasks[i].plan_key) > 0; }

  /// Arrays that were not sent and of which no element has anything to do that it could.
  std::vector<std::size_t> pointless() const {
    const Cancellation cancelled = read_cancelled(store_, run_);
    const auto sent = sent_jobs(store_, run_);
    std::set<std::size_t> coming;  // tasks that an array makes which is still to be sent
    std::vector<std::size_t> skip;
    for (std::size_t k = 0; k < submission_.arrays.size(); ++k) {
      const SubmittedArray& array = submission_.arrays[k];
      if (!array.live_job.empty() || sent.count(array.token)) continue;
      bool useful = false;
      for (const auto& [index, tasks] : array.elements) {
        std::set<std::size_t> own;
        for (const std::size_t t : tasks) {
          const auto at = by_key_.find(submission_.tasks[t].plan_key);
          if (at == by_key_.end() || is_done(at->second) || cancelled.covers(at->first)) continue;
          const Task& task = graph_.tasks[at->second];
          const bool can =
              task.allow_partial || std::all_of(task.inputs.begin(), task.inputs.end(), [&](const Edge& edge) {
                return is_done(edge.producer) || is_live(edge.producer) || own.count(edge.producer) ||
                       coming.count(edge.producer);
              });
          if (!can) continue;
          own.insert(at->second);
        }
        useful = useful || !own.empty();
        coming.insert(own.begin(), own.end());
      }
      if (!useful) skip.push_back(k);
    }
    return skip;
  }

  /// Counts the tasks by their end. Results of other runs are noted in the journal as reused, so that `status` agrees.
  RunSummary sum_up() {
    RunSummary summary;
    summary.run_id = run_;
    JobStates none;
    none.rows.emplace();
    add_jobs(status_, store_, submission_, none);  // what follows a failure is blocked
    Journal journal(folder_);
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      const TaskStatus* const known = status_.find(graph_.tasks[i].id);
      if (!known) continue;
      const TaskStatus& task = *known;
      // The key of a partial report is presumed where some of its inputs are not there.
      if (is_done(i) || (task.phase == "done" && plan_.tasks[i].state == TaskState::kLikelyReuse)) {
        ++(task.phase == "done" ? summary.executed : summary.reused);
        if (task.phase != "done" && task.phase != "reused")
          journal.append({{"event", "reuse"}, {"task", task.id}, {"key", plan_.tasks[i].task_key}});
      } else if (task.phase == "failed") {
        ++summary.failed;
        TaskFailure failure;
        failure.task = i;
        failure.reason = task.reason;
        failure.log = task.log;
        failure.rerun = status_.command;
        failure.rerun.push_back(task.id);
        summary.failures.push_back(std::move(failure));
      } else if (task.phase == "blocked") {
        ++summary.blocked;
      } else {
        ++summary.interrupted;
      }
    }
    summary.exit_code = summary.failed > 0                          ? kRunFailed
                        : summary.blocked + summary.interrupted > 0 ? kRunIncomplete
                                                                    : kRunDone;
    return summary;
  }

  Store& store_;
  const std::string run_;
  Slurm& slurm_;
  const std::string own_job_;
  fs::path folder_;
  Submission submission_;
  Graph graph_;
  Plan plan_;
  RunStatus status_;
  LiveTasks live_;
  std::map<std::string, std::size_t> by_key_;
  LastReport report_;
};

}  // namespace

LastReport go_on(Store& store, const std::string& run, Slurm& slurm, const std::string& own_job,
                 const std::function<void(const std::string&)>& tell) {
  return GoingOn(store, run, slurm, own_job).go(tell);
}

void end_abandoned(Store& store, const std::vector<Submission>& open, const std::vector<JobRow>& rows, Slurm& slurm) {
  constexpr double kJustMade = 600;  // seconds
  for (const Submission& submission : open) {
    if (has_jobs(submission, rows)) continue;
    try {
      GoingOn going_on(store, submission.run, slurm, "");
      const bool just_made = support::unix_time() - submission.created < kJustMade;
      if (!just_made || going_on.everything_is_there()) going_on.tie_up(/*show=*/false);
    } catch (const support::ArtifactError&) {
      // A damaged run must not prevent a submission.
    }
  }
}

}  // namespace pe::pipeline
