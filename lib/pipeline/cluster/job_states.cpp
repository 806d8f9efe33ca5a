#include "pipeline/cluster/job_states.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

constexpr double kSilence = 120;  // seconds; an element writes its state every ten

/// Whether the task is at work as far as its journal says.
bool at_work(const TaskStatus& task) {
  return task.phase == "running" || task.phase == "verifying" || task.phase == "lost";
}

bool settled(const TaskStatus& task) {
  return task.phase == "done" || task.phase == "reused" || task.phase == "failed" || task.phase == "blocked";
}

std::optional<Json> state_of(const Store& store, const std::string& run, const SentArray& array, std::int64_t index) {
  const auto path = store.runs_folder() / run / "state" / cat(array.token, "_", index, ".json");
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  try {
    Json json = support::parse_json(support::read_file(path, 1 << 20));
    if (json.is_object()) return json;
  } catch (const support::IoError&) {
    // Replaced while we looked: the next look sees it.
  }
  return std::nullopt;
}

void add_progress(TaskStatus& task, const Json& state) {
  if (!state.contains("running") || !state["running"].is_array()) return;
  for (const Json& running : state["running"]) {
    if (running.is_object() && running.value("task", "") == task.id && running.contains("progress"))
      task.progress = running["progress"];
  }
}

}  // namespace

void add_jobs(RunStatus& status, const Store& store, const Submission& submission, const JobStates& jobs) {
  std::map<std::string, std::size_t> by_key;
  for (std::size_t i = 0; i < status.tasks.size(); ++i) by_key.emplace(status.tasks[i].plan_key, i);
  const std::map<std::string, std::string> sent = sent_jobs(store, status.run_id);
  const Cancelled cancelled = read_cancelled(store, status.run_id);
  static const std::vector<JobRow> none;
  const JobTable table(jobs.rows ? *jobs.rows : none);
  std::map<std::pair<std::string, std::int64_t>, const EndedJob*> ended;
  if (jobs.ended) {
    for (const EndedJob& job : *jobs.ended) ended[{job.name, job.index}] = &job;
  }
  std::size_t live = 0, working = 0, unsent = 0;
  for (const SentArray& array : submission.arrays) {
    const auto job = sent.find(array.token);
    const std::string id = !array.live_job.empty() ? array.live_job : job == sent.end() ? "" : job->second;
    for (const auto& [index, tasks] : array.elements) {
      const JobRow* row = table.find(array, index);
      if (row && is_live(*row)) ++live;
      for (const std::size_t i : tasks) {
        const auto at = by_key.find(submission.tasks[i].plan_key);
        if (at == by_key.end()) continue;
        TaskStatus& task = status.tasks[at->second];
        if (!id.empty()) task.job = cat(id, "_", index);
        if (task.log.empty() && task.phase != "done" && task.phase != "reused") {
          const auto log = store.runs_folder() / status.run_id / "jobs" / cat(array.token, "_", index, ".log");
          std::error_code error;
          if (std::filesystem::exists(log, error)) task.log = log.string();
        }
        if (settled(task)) continue;
        if (cancelled.covers(task.plan_key) && !(row && is_live(*row))) {
          task.phase = "cancelled";
          continue;
        }
        if (id.empty()) {
          ++unsent;
          task.reason = "not submitted yet: `pe-pipeline submit --continue` submits it";
          continue;
        }
        if (!jobs.rows || !array.live_job.empty()) continue;
        if (row && row->reason == "DependencyNeverSatisfied") {
          task.phase = "blocked";
          task.reason = "what its job waits for has failed";
        } else if (row && is_live(*row) && row->state == "PENDING") {
          task.phase = "queued";
          task.reason = row->reason;
        } else if (row && (is_live(*row) || row->state == "COMPLETING")) {
          if (!at_work(task)) {
            task.phase = row->state == "RUNNING" ? "starting" : "queued";
            task.reason = row->state == "RUNNING" ? "" : row->state;
            continue;
          }
          task.phase = "running";
          ++working;
          if (const auto state = state_of(store, status.run_id, array, index)) {
            add_progress(task, *state);
            const double silent = support::unix_time() - state->value("time", support::unix_time());
            if (row->state == "SUSPENDED")
              task.reason = "suspended by Slurm";
            else if (silent > kSilence)
              task.reason = cat("suspect: its job runs, but gave no sign for ", support::short_duration(silent));
          }
        } else {
          const auto account = ended.find({array.name(), index});
          const std::string how = row                        ? row->state
                                  : account != ended.end()   ? account->second->state
                                                             : std::string();
          const bool said_to_be_over = row || (account != ended.end() && is_final(account->second->state));
          if (at_work(task) && !said_to_be_over) {
            // An answer may lack a job for other reasons than its end.
            const auto state = state_of(store, status.run_id, array, index);
            const double silent = state ? support::unix_time() - state->value("time", 0.0) : kSilence;
            if (silent < kSilence) {
              task.phase = "running";
              task.reason = cat("Slurm does not name its job; it gave a sign ", support::short_duration(silent), " ago");
              add_progress(task, *state);
              ++working;
              ++live;
              continue;
            }
          }
          if (at_work(task)) task.phase = "lost";
          task.reason = cat("its job ", task.job, " has ended", how.empty() ? "" : cat(" (", how, ")"),
                            "; `pe-pipeline submit` continues");
        }
      }
    }
  }
  if (status.ended > 0) return;
  if (cancelled.all && live == 0)
    status.state = "cancelled";
  else if (!jobs.rows)
    status.state = "unknown";
  else if (live > 0)
    status.state = working > 0 ? "running" : "queued";
  else
    status.state = "incomplete";
  if (std::all_of(status.tasks.begin(), status.tasks.end(), [](const TaskStatus& task) {
        return task.phase == "done" || task.phase == "reused";
      })) {
    status.state = "done";
  }
}

void add_jobs(RunStatus& status, const Store& store, Slurm& slurm) {
  const auto submission = read_submission(store, status.run_id);
  if (!submission) return;
  std::vector<std::string> names;
  for (const SentArray& array : submission->arrays) {
    if (array.live_job.empty()) names.push_back(array.name());
  }
  JobStates jobs;
  // Of a run that is over the queue tells nothing new.
  if (status.ended == 0) jobs.rows = slurm.jobs_named(names);
  if (status.ended > 0) jobs.rows.emplace();
  const bool some_at_work = std::any_of(status.tasks.begin(), status.tasks.end(), at_work);
  if (status.ended == 0 && jobs.rows && some_at_work) {
    std::size_t running = 0;
    for (const JobRow& row : *jobs.rows) running += is_live(row) && row.state != "PENDING";
    const auto said = static_cast<std::size_t>(std::count_if(status.tasks.begin(), status.tasks.end(), at_work));
    if (running < said) jobs.ended = slurm.ended_named(names);
  }
  add_jobs(status, store, *submission, jobs);
}

}  // namespace pe::pipeline
