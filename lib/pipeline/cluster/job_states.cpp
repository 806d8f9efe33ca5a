#include "pipeline/cluster/job_states.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

constexpr const char* kOutOfMemory = "OUT_OF_MEMORY";
constexpr double kSilence = 120;  // seconds; an element writes its state every ten

/// Whether the task is at work as far as its journal says.
bool at_work(const TaskStatus& task) {
  return task.phase == "running" || task.phase == "verifying" || task.phase == "lost";
}

bool settled(const TaskStatus& task) {
  return task.phase == "done" || task.phase == "reused" || task.phase == "failed" || task.phase == "blocked";
}

std::optional<Json> state_of(const Store& store, const std::string& run, const SubmittedArray& array,
                             std::int64_t index) {
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

using ElementName = std::pair<std::string, std::int64_t>;  // of its array, index

/// Answers of the accounts by element.
std::map<ElementName, const EndedJob*> by_element(const std::optional<std::vector<EndedJob>>& ended) {
  std::map<ElementName, const EndedJob*> found;
  if (ended) {
    for (const EndedJob& job : *ended) found[{job.name, job.index}] = &job;
  }
  return found;
}

/// Tasks by plan key.
std::map<std::string, std::size_t> by_plan_key(const RunStatus& status) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < status.tasks.size(); ++i) places.emplace(status.tasks[i].plan_key, i);
  return places;
}

/// Lays jobs over the status of one run.
class Overlay {
 public:
  Overlay(RunStatus& status, const Store& store, const Submission& submission, const JobStates& jobs)
      : status_(status),
        store_(store),
        submission_(submission),
        jobs_(jobs),
        places_(by_plan_key(status)),
        sent_(sent_jobs(store, status.run_id)),
        cancelled_(read_cancelled(store, status.run_id)),
        table_(jobs.rows ? *jobs.rows : kNone),
        ended_(by_element(jobs.ended)) {
    for (const JobRow& row : jobs.rows ? *jobs.rows : kNone) {
      if (row.name.rfind(submission.last.name(), 0) == 0 && pipeline::is_live(row)) last_ = &row;
    }
  }

  void apply() {
    for (const SubmittedArray& array : submission_.arrays) {
      const auto job = sent_.find(array.token);
      const std::string id = !array.live_job.empty() ? array.live_job : job == sent_.end() ? "" : job->second;
      for (const auto& [index, tasks] : array.elements) {
        const Element element{array, index, id, table_.find(array, index)};
        if (element.is_live()) ++live_;
        for (const std::size_t i : tasks) {
          const auto at = places_.find(submission_.tasks[i].plan_key);
          if (at != places_.end()) apply_overrides(status_.tasks[at->second], element);
        }
      }
    }
    if (jobs_.rows) block_what_follows();
    if (status_.ended == 0) judge_run();
  }

 private:
  struct Element {
    const SubmittedArray& array;
    std::int64_t index;
    const std::string& job;  // of its array; empty: not sent
    const JobRow* row;       // null: the queue does not hold it

    bool is_live() const { return row && pipeline::is_live(*row); }
  };

  /// The state in which the job ended, from the accounts or the queue; empty when it is unknown.
  std::string end_of(const Element& element) const {
    const auto account = ended_.find({element.array.name(), element.index});
    if (account != ended_.end() && (!element.row || is_final(account->second->state))) return account->second->state;
    return element.row ? element.row->state : "";
  }

  void apply_overrides(TaskStatus& task, const Element& element) {
    if (!element.job.empty()) task.job = cat(element.job, "_", element.index);
    if (task.log.empty() && task.phase != "done" && task.phase != "reused") {
      const auto log =
          store_.runs_folder() / status_.run_id / "jobs" / cat(element.array.token, "_", element.index, ".log");
      std::error_code error;
      if (std::filesystem::exists(log, error)) task.log = log.string();
    }
    if (task.phase == "failed" && end_of(element) == kOutOfMemory) task.reason += cat("; Slurm says: ", kOutOfMemory);
    for (const ArrayNeed& need : element.array.needs) {
      if (need.kind != ArrayNeed::Kind::kAfterAny) waits_for_success_.insert(task.plan_key);
    }
    if (settled(task) || status_.ended > 0) return;
    if (cancelled_.covers(task.plan_key) && !element.is_live()) {
      task.phase = "cancelled";
    } else if (element.job.empty()) {
      task.reason = last_ ? cat("not submitted yet: job ", last_->id(), " submits it when there is room in the queue")
                          : "not submitted yet: `pe-pipeline submit --continue` submits it";
    } else if (!element.array.live_job.empty()) {
      task.reason = cat("job ", task.job, " of an earlier submission makes it");
    } else if (jobs_.rows && element.row && element.row->reason == "DependencyNeverSatisfied") {
      task.phase = "blocked";
      task.reason = "what its job waits for has failed";
    } else if (jobs_.rows && element.row && !is_final(element.row->state)) {
      of_live_job(task, element);
    } else if (jobs_.rows) {
      of_ended_job(task, element);
    }
  }

  void of_live_job(TaskStatus& task, const Element& element) {
    const JobRow& row = *element.row;
    if (row.state == "PENDING") {
      task.phase = "queued";
      const std::string never = why_it_never_starts(row.reason);
      task.reason = never.empty() ? row.reason : cat("Slurm does not start it (", row.reason, "): ", never);
      return;
    }
    if (!at_work(task)) {
      task.phase = row.state == "RUNNING" ? "starting" : "queued";
      task.reason = row.state == "RUNNING" ? "" : row.state;
      return;
    }
    task.phase = "running";
    ++working_;
    if (const auto state = state_of(store_, status_.run_id, element.array, element.index)) {
      add_progress(task, *state);
      const double silent = support::unix_time() - state->value("time", support::unix_time());
      if (row.state == "SUSPENDED")
        task.reason = "suspended by Slurm";
      else if (silent > kSilence)
        task.reason = cat("suspect: its job runs, but gave no sign for ", support::short_duration(silent));
    }
  }

  void of_ended_job(TaskStatus& task, const Element& element) {
    const std::string how = end_of(element);
    if (at_work(task) && !is_final(how)) {
      // An answer may lack a job for other reasons than its end.
      const auto state = state_of(store_, status_.run_id, element.array, element.index);
      const double silent = state ? support::unix_time() - state->value("time", 0.0) : kSilence;
      if (silent < kSilence) {
        task.phase = "running";
        task.reason = cat("Slurm does not name its job; it gave a sign ", support::short_duration(silent), " ago");
        add_progress(task, *state);
        ++working_;
        ++live_;
        return;
      }
    }
    const bool badly = is_final(how) && how != "COMPLETED" && how != "CANCELLED";
    if (at_work(task) || badly) task.phase = "lost";
    const std::string why = element.row && is_final(element.row->state) ? element.row->reason : "";
    task.reason =
        cat("its job ", task.job, " has ended", how.empty() ? "" : cat(" (", how, why.empty() ? "" : ", ", why, ")"),
            "; `pe-pipeline submit` continues", how == kOutOfMemory ? ", and asks for more memory" : "");
  }

  /// Slurm cancels jobs whose dependency failed, and forgets them later. The list has producers before their readers.
  void block_what_follows() {
    for (TaskStatus& task : status_.tasks) {
      if (task.phase != "waiting" || !waits_for_success_.count(task.plan_key)) continue;
      for (const std::string& need : task.needs) {
        const TaskStatus* const producer = status_.find_producer(need);
        if (!producer || (producer->phase != "failed" && producer->phase != "blocked")) continue;
        task.phase = "blocked";
        task.reason = cat("needs ", need, ", which ", producer->phase == "failed" ? "failed" : "is blocked");
        break;
      }
    }
  }

  void judge_run() {
    if (cancelled_.all && live_ == 0)
      status_.state = "cancelled";
    else if (!jobs_.rows)
      status_.state = "unknown";
    else if (live_ > 0)
      status_.state = working_ > 0 ? "running" : "queued";
    else if (last_)
      status_.state = last_->state == "RUNNING" ? "running" : "queued";
    else
      status_.state = "incomplete";
    if (std::all_of(status_.tasks.begin(), status_.tasks.end(),
                    [](const TaskStatus& task) { return task.phase == "done" || task.phase == "reused"; })) {
      status_.state = "done";
    }
  }

  static inline const std::vector<JobRow> kNone;
  RunStatus& status_;
  const Store& store_;
  const Submission& submission_;
  const JobStates& jobs_;
  std::map<std::string, std::size_t> places_;
  std::map<std::string, std::string> sent_;
  Cancellation cancelled_;
  JobTable table_;
  std::map<ElementName, const EndedJob*> ended_;
  std::set<std::string> waits_for_success_;  // plan keys of tasks whose jobs run only when their needs ended well
  const JobRow* last_ = nullptr;             // of the last job, while it waits or runs
  std::size_t live_ = 0, working_ = 0;       // elements; tasks
};

/// Names that jobs of a submission have, the last ones included.
std::vector<std::string> names_of(const Store& store, const Submission& submission) {
  std::vector<std::string> names;
  for (const SubmittedArray& array : submission.arrays) {
    if (array.live_job.empty()) names.push_back(array.name());
  }
  for (const auto& [token, job] : sent_jobs(store, submission.run)) {
    if (token.rfind(submission.last.token, 0) == 0) names.push_back(job_name(submission.last.label, token));
  }
  return names;
}

/// Whether the accounts may know more than the queue: some unsettled task has a job that the queue lacks, or that
/// failed.
bool should_ask_accounts(const RunStatus& status, const Store& store, const Submission& submission,
                         const std::vector<JobRow>& rows) {
  const auto places = by_plan_key(status);
  const auto sent = sent_jobs(store, status.run_id);
  const JobTable table(rows);
  for (const SubmittedArray& array : submission.arrays) {
    if (!sent.count(array.token)) continue;
    for (const auto& [index, tasks] : array.elements) {
      const JobRow* row = table.find(array, index);
      if (row && (!is_final(row->state) || row->state == "COMPLETED")) continue;
      for (const std::size_t i : tasks) {
        const auto at = places.find(submission.tasks[i].plan_key);
        if (at != places.end() && (!settled(status.tasks[at->second]) || status.tasks[at->second].phase == "failed"))
          return true;
      }
    }
  }
  return false;
}

/// Asks the queue, where it can know of these jobs. @throws nothing; `trouble` says why there is no answer
std::optional<std::vector<JobRow>> rows_of(const Store& store, const Submission& submission, Slurm& slurm,
                                           std::string& trouble) {
  const std::string here = submission.cluster.empty() ? "" : slurm.cluster();
  if (here != submission.cluster) {
    trouble = here.empty()
                  ? slurm.trouble()
                  : cat("it was submitted by ", submitter(submission), ", and here is cluster ", support::quote(here));
    return std::nullopt;
  }
  auto rows = slurm.jobs_named(names_of(store, submission), submission.user);
  if (!rows) trouble = slurm.trouble();
  if (rows && rows->empty() && !is_own(submission, slurm)) {
    trouble =
        cat("its jobs belong to ", submitter(submission), "; they are over, or this Slurm hides them from others");
    return std::nullopt;
  }
  return rows;
}

}  // namespace

void add_jobs(RunStatus& status, const Store& store, const Submission& submission, const JobStates& jobs) {
  Overlay(status, store, submission, jobs).apply();
}

void add_jobs(RunStatus& status, const Store& store, Slurm& slurm) {
  const auto submission = read_submission(store, status.run_id);
  if (!submission) return;
  JobStates jobs;
  // The queue has nothing new about a run that has ended.
  if (status.ended > 0)
    jobs.rows.emplace();
  else
    jobs.rows = rows_of(store, *submission, slurm, status.trouble);
  if (status.ended == 0 && jobs.rows && should_ask_accounts(status, store, *submission, *jobs.rows))
    jobs.ended = slurm.ended_named(names_of(store, *submission), submission->user);
  add_jobs(status, store, *submission, jobs);
}

}  // namespace pe::pipeline
