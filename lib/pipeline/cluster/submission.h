/// @file
/// A submission: a run whose tasks are carried out by jobs of a cluster. It is frozen when it is made: later changes of
/// the pipeline file, its configs or the programs do not reach it.
///
///     runs/<run>/plan.json             As of every run.
///                submission.json       pe-submission/1: tasks, arrays with options, scripts and dependencies.
///                graph.json            pe-graph/1, all of it, for the last job.
///                arrays/<token>.json   pe-array/1: input of an element of one array, by digest.
///                sent/                 Journal of sending: intent before, job after.
///                jobs/<token>_<i>.log  Output of the jobs.
///                state/<token>_<i>.json  Position of an element, every ten seconds while it runs.
///                cancelled/            Marks; a marked job is not started and not queued again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "pipeline/cluster/array_layout.h"
#include "pipeline/cluster/batch.h"
#include "pipeline/cluster/slurm.h"
#include "pipeline/file/graph.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

/// A task as a submission names it.
struct SentTask {
  std::string id, stage, plan_key;
};

struct SubmittedArray {
  std::string token, label;
  std::vector<std::string> options;  ///< of sbatch, without dependencies
  std::string script;
  std::map<std::int64_t, std::vector<std::size_t>> elements;  ///< index → tasks, places in Submission::tasks
  std::vector<ArrayNeed> needs;
  std::string live_job;  ///< an array of an earlier submission, only waited for

  std::string name() const { return job_name(label, token); }
};

struct Submission {
  std::string run, pipeline, file;
  std::string user, cluster;  ///< whose jobs they are and of which Slurm; empty in submissions of older versions
  std::vector<SentTask> tasks;
  std::vector<SubmittedArray> arrays;
  /// Of the last job, which waits for all others and then sends remaining jobs, or completes the run.
  SubmittedArray last;
  std::int64_t max_in_queue = 0;
  double created = 0;
};

/// Parts of a submission.
struct SubmissionRequest {
  std::string run;
  std::filesystem::path store;
  std::string program;               ///< this one, absolute
  std::vector<std::string> command;  ///< that runs a task here: "pe-pipeline run FILE …"
  std::int64_t max_in_queue = 0;
  std::string user, cluster;  ///< as in Submission
};

/// The submission with the frozen documents of its arrays, by token; nothing is written.
struct PreparedSubmission {
  Submission submission;
  std::map<std::string, std::string> documents;
};
PreparedSubmission make_submission(const Graph& graph, const std::vector<JobArray>& arrays,
                                   const SubmissionRequest& order);

/// Writes it into the folder of its run, which must be there. @throws IoError
void write_submission(const Store& store, const Graph& graph, const PreparedSubmission& made);
/// Empty when the run is none. @throws ArtifactError when it is damaged
std::optional<Submission> read_submission(const Store& store, const std::string& run);
/// The graph that was submitted. @throws ArtifactError when it is damaged or gone
Graph read_graph(const Store& store, const std::string& run);

// ---- marks
// -------------------------------------------------------------------------------------------------------------

/// Marks tasks as cancelled, by plan key; none: all of the run. @throws IoError
void mark_cancelled(const Store& store, const std::string& run, const std::set<std::string>& plan_keys);
struct Cancellation {
  bool all = false;
  std::set<std::string> plan_keys;
  bool covers(const std::string& plan_key) const { return all || plan_keys.count(plan_key) > 0; }
};
Cancellation read_cancelled(const Store& store, const std::string& run);

// ---- what is in the queue
// ------------------------------------------------------------------------------------------------

/// Rows of squeue by array token and index. A row without an index covers every element without a separate row.
class JobTable {
 public:
  JobTable(const std::vector<JobRow>& rows);
  /// Null when the queue does not hold it.
  const JobRow* find(const SubmittedArray& array, std::int64_t index) const;
  /// Every row of it.
  std::vector<const JobRow*> rows_of(const SubmittedArray& array) const;

 private:
  struct Rows {
    std::vector<const JobRow*> all;
    std::unordered_map<std::int64_t, const JobRow*> by_index;
  };
  std::map<std::string, Rows> by_name_;
};

/// Whether a job will run or runs: it has not ended, is not ending, and does not wait forever for a failed job.
bool is_live(const JobRow& row);

/// The log file of the job of a task, apart from the log of its stage; empty when there is none yet.
std::filesystem::path job_log(const Store& store, const Submission& submission, const std::string& plan_key);

/// Runs of the store that are submissions and have not ended, oldest first.
std::vector<Submission> open_submissions(const Store& store);

/// Whether its jobs belong to this user and to the cluster that answers. About other submissions the queue says
/// nothing, so they must not be continued, adopted or ended from here.
bool is_own(const Submission& submission, Slurm& slurm);
/// "user 'ann' on cluster 'b'".
std::string submitter(const Submission& submission);

struct LiveTasks {
  std::map<std::string, LiveElement> by_plan_key;
  std::vector<std::string> blocked;  ///< ids of jobs that wait forever for a failed job
};
/// Whether a job of it waits or runs, the last one included.
bool has_jobs(const Submission& submission, const std::vector<JobRow>& rows);

LiveTasks live_tasks(const Store& store, const std::vector<Submission>& open, const std::vector<JobRow>& rows);

// ---- sending
// -------------------------------------------------------------------------------------------------------------

struct SendReport {
  std::size_t arrays = 0, elements = 0;  ///< that Slurm has now, sent by this call or found
  std::size_t waiting = 0;               ///< elements that did not fit into the queue
  bool last_is_sent = false;
  bool looks_again = false;  ///< The last job depends on no other job, and looks for room later.
  std::string limit;         ///< sbatch's message about the limit; empty when the jobs were counted here.
  std::string failed;        ///< Why sending stopped; empty after success.
  Refusal refusal = Refusal::kUnknown;
};

struct SendOptions {
  std::int64_t room = 1'000'000;  ///< Jobs that the queue takes.
  std::vector<std::size_t> skip;  ///< Arrays without remaining work.
  std::string own_job;            ///< Job of the caller, when it is the last job itself.
  double pause_s = 0.5;           ///< Pause before looking for a job whose answer was lost; doubles.
  std::function<void(const std::string&)> tell = [](const std::string&) {
  };                                        ///< receives the reason when sending takes long
  std::function<void()> heartbeat = [] {};  ///< before each call of Slurm
};

/// Sends jobs that were not sent yet, each array exactly once. The intent is noted before, and the job after. Where an
/// answer was lost, the job is looked for by its name. Calling it again continues from there.
SendReport send(const Store& store, const Submission& submission, Slurm& slurm, const SendOptions& options);

/// Job ids by token, as far as they are noted.
std::map<std::string, std::string> sent_jobs(const Store& store, const std::string& run);

}  // namespace pe::pipeline
