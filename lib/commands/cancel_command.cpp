#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "commands/run_choice.h"
#include "commands/session.h"
#include "commands/submissions.h"
#include "pipeline/orchestrator.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/json_text.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::RunStatus;
using pipeline::Store;
using pipeline::Submission;
using support::cat;
using support::ConfigError;
using support::quote;

/// The run to cancel: --run, a word that names a run, else the newest active one, of the pipeline that a file names.
std::string run_to_cancel(const Store& store, cli::CommandLine& line) {
  if (const auto run = take_first_run(store, line)) return *run;
  const auto live = pipeline::live_runs(store);
  if (live.empty())
    throw ConfigError("this store has no active run", {"pe-pipeline cancel", 0, 0, "", 1},
                      "--store or a pipeline file names another store");
  return newest_run(store, live, line.file, "active run");
}

/// A run of a process on this machine.
int stop_process(const Store& store, const RunStatus& status, const std::vector<std::string>& words) {
  if (!words.empty())
    throw ConfigError("this run is not a submission, so it can only be stopped as a whole",
                      {"pe-pipeline cancel", 0, 0, "", 1});
  if (!pipeline::run_is_alive(store, status.run_id))
    throw ConfigError(cat("run ", status.run_id, " has ended"), {"pe-pipeline cancel", 0, 0, "", 1});
  // Machines and containers may share a name, and numbers of processes repeat.
  const pipeline::HostIdentity& here = pipeline::this_host();
  const bool is_here = status.where.host == here.host && status.where.machine == here.machine &&
                       status.where.boot == here.boot && status.where.pids == here.pids;
  if (!is_here || pipeline::process_life(status.pid, status.process_start) != pipeline::ProcessLife::kAlive) {
    const bool same_name = status.where.host == here.host;
    throw ConfigError(cat("run ", status.run_id, " is process ", status.pid, " on ", status.host,
                          !is_here && same_name ? ", another machine or container of this name"
                          : is_here             ? ", which this user cannot see"
                                                : ""),
                      {"pe-pipeline cancel", 0, 0, "", 1}, "stop it there");
  }
  if (::kill(static_cast<pid_t>(status.pid), SIGTERM) != 0)
    support::throw_errno("stop process", std::to_string(status.pid));
  print(cat("run ", status.run_id, ": process ", status.pid, " was asked to save and stop\n"));
  return pipeline::kRunDone;
}

/// Ids for scancel: the array's id where all of it goes, else the ids of its elements.
std::vector<std::string> jobs_to_cancel(const Submission& submission, const std::set<std::string>& keys,
                                        const std::vector<pipeline::JobRow>& rows) {
  const pipeline::JobTable table(rows);
  std::vector<std::string> ids;
  for (const pipeline::SubmittedArray& array : submission.arrays) {
    if (!array.live_job.empty()) continue;
    std::set<std::int64_t> chosen;
    for (const auto& [index, tasks] : array.elements) {
      if (std::all_of(tasks.begin(), tasks.end(),
                      [&](std::size_t i) { return keys.empty() || keys.count(submission.tasks[i].plan_key) > 0; })) {
        chosen.insert(index);
      }
    }
    std::map<std::string, std::vector<std::string>> by_job;
    for (const pipeline::JobRow* row : table.rows_of(array)) {
      if (!pipeline::is_final(row->state) && chosen.count(row->index)) by_job[row->array_job].push_back(row->id());
    }
    for (auto& [job, elements] : by_job) {
      if (chosen.size() == array.elements.size())
        ids.push_back(job);
      else
        ids.insert(ids.end(), elements.begin(), elements.end());
    }
  }
  if (keys.empty()) {
    // The last job, too, under whichever of its names it waits.
    for (const pipeline::JobRow& row : rows) {
      if (row.name.rfind(submission.last.name(), 0) == 0 && !pipeline::is_final(row.state))
        ids.push_back(row.array_job);
    }
  }
  return ids;
}

/// Refuses to cancel jobs of another user or cluster: marks stop only tasks that have not started, and scancel obeys
/// their user alone.
void refuse_foreign(const Submission& submission, pipeline::Slurm& slurm) {
  const bool may = submission.user.empty() || submission.user == slurm.user() || ::geteuid() == 0;
  // Without an answer the marks are still right.
  const bool here = submission.cluster.empty() || slurm.cluster().empty() || submission.cluster == slurm.cluster();
  if (may && here) return;
  throw ConfigError(
      cat("run ", submission.run, " was submitted by ", pipeline::submitter(submission), "; here is user ",
          quote(slurm.user()), slurm.cluster().empty() ? "" : cat(" on cluster ", quote(slurm.cluster()))),
      {"pe-pipeline cancel", 0, 0, "", 1}, "only there can its jobs be cancelled");
}

}  // namespace

int cancel_command(const cli::CommandLine& given) {
  cli::CommandLine line = given;
  Store store = open_for_reading(store_path_for(line));
  const std::string run = run_to_cancel(store, line);
  const RunStatus status = pipeline::read_run(store, run);
  if (status.cluster.empty()) return stop_process(store, status, line.words);
  if (status.ended > 0) throw ConfigError(cat("run ", run, " has ended"), {"pe-pipeline cancel", 0, 0, "", 1});
  const auto submission = pipeline::read_submission(store, run);
  if (!submission) throw support::ArtifactError(cat("run ", run, " has lost its submission"));
  const std::set<std::string> keys = selected_keys(status, line.words, "cancel");
  pipeline::Slurm slurm;
  refuse_foreign(*submission, slurm);
  // First of all: no job of these is queued again from here on.
  pipeline::mark_cancelled(store, run, keys);
  const auto rows = slurm.jobs_of(submission->user);
  if (!rows) {
    say(cat("pe-pipeline: ", slurm.trouble(),
            ". The tasks are marked, and their jobs end when they look; call `pe-pipeline cancel --run ", run,
            "` again for scancel\n"));
    return pipeline::kRunIncomplete;
  }
  const std::vector<std::string> ids = jobs_to_cancel(*submission, keys, *rows);
  const std::string failed = ids.empty() ? "" : slurm.cancel(ids);
  if (!failed.empty()) {
    say(cat("pe-pipeline: scancel: ", failed, "\n"));
    return pipeline::kRunIncomplete;
  }
  print(cat("run ", run, ": ", keys.empty() ? std::string("everything") : counted(keys.size(), "task"), " cancelled, ",
            counted(ids.size(), "order"), " to Slurm\n"));
  if (!keys.empty()) return pipeline::kRunDone;
  const Json json{{"schema", "pe-run-summary/1"},
                  {"run", run},
                  {"exit_code", pipeline::kRunIncomplete},
                  {"cancelled", true},
                  {"ended", support::unix_time()}};
  support::write_file_atomically(store.runs_folder() / run / "summary.json", support::json_text(json, 1) + "\n",
                                 store.durable());
  return pipeline::kRunDone;
}

}  // namespace pe::commands
