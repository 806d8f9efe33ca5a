#include "pipeline/run/run_status.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "pipeline/run/exit_code.h"
#include "pipeline/run/run_folder.h"
#include "pipeline/run/task_phase.h"
#include "pipeline/store/journal.h"
#include "pipeline/store/lease.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/json_fields.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

/// The process that a plan names.
LeaseOwner owner_of(const Json& plan) {
  LeaseOwner owner;
  owner.where = {support::text_in(plan, "host"), support::text_in(plan, "machine"), support::text_in(plan, "boot"),
                 support::text_in(plan, "pids")};
  owner.pid = support::field_or(plan, "pid", std::int64_t{0});
  owner.process_start = support::field_or(plan, "process_start", std::uint64_t{0});
  return owner;
}

/// When it last wrote its plan or its progress, by the clock of the file system.
double last_sign(const std::filesystem::path& folder) {
  double last = 0;
  for (const char* name : {"plan.json", "progress.json"}) {
    struct stat status {};
    if (::stat((folder / name).c_str(), &status) == 0) last = std::max(last, static_cast<double>(status.st_mtime));
  }
  return last;
}

bool is_alive(const std::filesystem::path& folder, const Json& plan) {
  const LeaseOwner owner = owner_of(plan);
  const HostIdentity& here = this_host();
  if (Leases::owner_is_gone(owner, here)) return false;
  const bool ours = owner.where.host == here.host && owner.where.boot == here.boot && owner.where.pids == here.pids;
  if (ours && process_life(owner.pid, owner.process_start) == ProcessLife::kAlive) return true;
  // Elsewhere, or hidden: it writes its progress about once a second.
  return support::file_time(folder) - last_sign(folder) < 120;
}

/// Reads the state of a run from its folder: the plan, then the journal, then the summary or the progress.
class RunReader {
 public:
  explicit RunReader(std::filesystem::path folder) : folder_(std::move(folder)) {}

  RunStatus read(const std::string& run_id) {
    const Json plan = read_plan(folder_, [&](const Json& json) { take_planned_task(json); });
    status_.run_id = run_id;
    take_plan(plan);
    each_journal_event(
        folder_, [&](const JournalEvent& event) { take_event(event); }, &status_.damaged_lines);
    const Json summary = read_json("summary.json");
    if (summary.is_object())
      take_summary(summary);
    else
      take_life(is_alive(folder_, plan) || !status_.cluster.empty());
    if (status_.state != "running") close_running_tasks();
    return std::move(status_);
  }

 private:
  Json read_json(const char* name) const {
    const auto path = folder_ / name;
    return ::access(path.c_str(), R_OK) == 0 ? support::parse_json(support::read_file(path)) : Json();
  }

  TaskStatus* find_task(const std::string& id) {
    const auto found = status_.places.find(id);
    return found == status_.places.end() ? nullptr : &status_.tasks[found->second];
  }

  void take_planned_task(const Json& json) {
    TaskStatus task;
    task.id = support::text_in(json, "id");
    task.stage = support::text_in(json, "stage");
    task.plan_key = support::text_in(json, "plan_key");
    task.task_key = support::text_in(json, "task_key");
    task.phase = support::text_in(json, "state") == "reuse" ? "reused" : "waiting";
    task.known_only = support::field_or(json, "known_only", false);
    if (json.contains("needs") && json["needs"].is_array()) {
      for (const Json& need : json["needs"]) {
        if (need.is_string()) task.needs.push_back(need.get<std::string>());
      }
    }
    status_.places[task.id] = status_.tasks.size();
    status_.tasks.push_back(std::move(task));
  }

  void take_plan(const Json& plan) {
    status_.pipeline = support::text_in(plan, "pipeline");
    status_.title = support::text_in(plan, "title");
    status_.file = support::text_in(plan, "file");
    status_.root = support::text_in(plan, "root");
    status_.capacity = support::text_in(plan, "capacity");
    status_.host = support::text_in(plan, "host");
    const LeaseOwner owner = owner_of(plan);
    status_.pid = owner.pid;
    status_.where = owner.where;
    status_.process_start = owner.process_start;
    status_.started = support::field_or(plan, "started", 0.0);
    status_.command = support::field_or(plan, "command", std::vector<std::string>());
    if (::access((folder_ / "submission.json").c_str(), F_OK) == 0) status_.cluster = "slurm";
  }

  void take_event(const JournalEvent& event) {
    const std::string& name = event.event;
    const double time_s = std::max(0.0, event.time - status_.started);
    status_.last_s = std::max(status_.last_s, time_s);
    if (name == "stop") stopped_ = true;
    TaskStatus* const found = find_task(event.task);
    if (!found) return;
    TaskStatus& task = *found;
    if (name == "start") {
      task.phase = "running";
      ended_well_.erase(task.id);
      task.attempt = static_cast<int>(event.attempt);
      task.attempts.push_back({.attempt = task.attempt,
                               .start_s = time_s,
                               .cpus = event.cpus,
                               .gpus = event.gpus,
                               .resumed = event.resumed});
      task.log = event.log;
      if (!event.key.empty()) task.task_key = event.key;
      if (task.started == 0) task.started = event.time;
      task.ended = 0;
    } else if (name == "reuse") {
      task.phase = "reused";
      status_.there_s[task.id] = time_s;
      if (!event.key.empty()) task.task_key = event.key;
    } else if (name == "publish") {
      if (!event.key.empty()) task.task_key = event.key;
      published_.insert(task.id);
      // A snapshot is published while the training continues; the exit decides there.
      if (event.snapshot.empty() || task.phase != "running" || ended_well_.count(task.id) != 0) task.phase = "done";
      task.ended = event.time;
      task.bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(0, event.bytes));
      status_.there_s[event.snapshot.empty() ? task.id : cat(task.id, "@", event.snapshot)] = time_s;
    } else if (name == "exit") {
      end_attempt(task, event, time_s);
      if (event.outcome == "done" || event.outcome == "diverged") {
        // Its outputs are hashed and published after its end.
        ended_well_.insert(task.id);
        task.phase = published_.count(task.id) != 0 ? "done" : "running";
      } else {
        task.phase = event.outcome == "interrupted" || event.outcome == "checkpointed" ? "interrupted" : "waiting";
      }
      task.ended = event.time;
    } else if (name == "retry" || name == "requeue") {
      task.phase = "waiting";
    } else if (name == "fail") {
      task.phase = "failed";
      task.reason = event.reason;
      if (task.log.empty()) task.log = event.log;
      task.ended = event.time;
    } else if (name == "block") {
      task.phase = "blocked";
      task.reason = event.reason;
    }
  }

  static void end_attempt(TaskStatus& task, const JournalEvent& event, double time_s) {
    const auto last = std::find_if(task.attempts.rbegin(), task.attempts.rend(), [&](const TaskAttempt& one) {
      return one.attempt == event.attempt && one.end_s < 0;
    });
    if (last == task.attempts.rend()) return;
    last->end_s = time_s;
    last->outcome = event.outcome;
    last->cpu_s = event.cpu_s;
    last->peak_rss_bytes = event.peak_rss_bytes;
  }

  void take_summary(const Json& summary) {
    status_.exit_code = support::field_or(summary, "exit_code", -1);
    status_.ended = support::field_or(summary, "ended", 0.0);
    cancelled_ = support::field_or(summary, "cancelled", false);
    switch (status_.exit_code) {
      case kRunDone:
        status_.state = "done";
        break;
      case kRunInterrupted:
        status_.state = "interrupted";
        break;
      case kRunIncomplete:
        status_.state = cancelled_ ? "cancelled" : stopped_ ? "interrupted" : "incomplete";
        break;
      default:
        status_.state = "failed";
        break;
    }
  }

  /// The state of a run without a summary, and the progress of its tasks while it is alive.
  void take_life(bool alive) {
    status_.state = alive ? "running" : "died";
    const Json progress = read_json("progress.json");
    if (!alive || !progress.is_object() || !progress.contains("running")) return;
    for (const Json& running : progress["running"]) {
      TaskStatus* const task = find_task(support::text_in(running, "task"));
      if (!task) continue;
      task->progress = support::field_or(running, "progress", Json::object());
      if (support::text_in(running, "phase") == phase_name(TaskPhase::kVerifying)) task->phase = running["phase"];
    }
  }

  /// No task runs or waits in a run that has ended.
  void close_running_tasks() {
    for (TaskStatus& task : status_.tasks) {
      const bool open = task.phase == "waiting" || task.phase == "ready" || task.phase == "running";
      if (cancelled_ && (open || task.phase == "interrupted")) task.phase = "cancelled";
      if (task.phase == "running") task.phase = status_.state == "died" ? "lost" : "interrupted";
    }
  }

  const std::filesystem::path folder_;
  RunStatus status_;
  std::set<std::string> published_, ended_well_;  // tasks
  bool stopped_ = false, cancelled_ = false;
};

}  // namespace

bool run_is_alive(const Store& store, const std::string& run_id) {
  const std::filesystem::path folder = store.runs_folder() / run_id;
  if (support::is_there(folder / "summary.json") || !support::is_there(folder / "plan.json")) return false;
  // Jobs may wait for days, on machines that cannot be asked; `cancel` and the last job end such a run.
  if (::access((folder / "submission.json").c_str(), F_OK) == 0) return true;
  try {
    return is_alive(folder, read_plan(folder, [](const Json&) {}));
  } catch (const support::ArtifactError&) {
    return false;
  }
}

std::vector<std::string> live_runs(const Store& store) {
  std::vector<std::string> live;
  for (const std::string& id : store.runs()) {
    if (run_is_alive(store, id)) live.push_back(id);
  }
  return live;
}

const TaskStatus* RunStatus::find(const std::string& id) const {
  const auto found = places.find(id);
  return found == places.end() ? nullptr : &tasks[found->second];
}

const TaskStatus* RunStatus::find_producer(const std::string& need) const {
  const TaskStatus* const whole = find(need);
  return whole ? whole : find(need.substr(0, need.rfind('@')));
}

RunStatus read_run(const Store& store, const std::string& run_id) {
  return RunReader(store.runs_folder() / run_id).read(run_id);
}

Json to_json(const RunStatus& status) {
  Json tasks = Json::array();
  std::map<std::string, std::size_t> counts;
  for (const TaskStatus& task : status.tasks) {
    ++counts[task.phase];
    Json json{{"id", task.id},
              {"stage", task.stage},
              {"phase", task.phase},
              {"plan_key", task.plan_key},
              {"task_key", task.task_key},
              {"attempt", task.attempt}};
    if (!task.reason.empty()) json["reason"] = task.reason;
    if (!task.log.empty()) json["log"] = task.log;
    if (!task.job.empty()) json["job"] = task.job;
    if (task.started > 0) json["started"] = task.started;
    if (task.ended > 0) json["ended"] = task.ended;
    if (!task.progress.empty()) json["progress"] = task.progress;
    tasks.push_back(std::move(json));
  }
  Json json{{"schema", "pe-status/1"},
            {"schema_version", 1},
            {"run", status.run_id},
            {"pipeline", status.pipeline},
            {"file", status.file},
            {"state", status.state},
            {"exit_code", status.exit_code},
            {"host", status.host},
            {"pid", status.pid},
            {"started", status.started},
            {"ended", status.ended},
            {"counts", counts},
            {"tasks", std::move(tasks)},
            {"damaged_journal_lines", status.damaged_lines}};
  if (!status.trouble.empty()) json["trouble"] = status.trouble;
  return json;
}

}  // namespace pe::pipeline
