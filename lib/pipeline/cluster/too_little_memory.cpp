#include "pipeline/cluster/too_little_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <utility>

#include "pipeline/store/attempt.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/json.h"
#include "support/json_fields.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;

namespace {

/// Bytes that each task asked for, by plan key. A job has more of them, or less on each of several nodes. Empty where
/// the submission is damaged.
std::map<std::string, std::int64_t> memory_of_tasks(const Store& store, const Submission& submission) {
  std::map<std::string, std::int64_t> bytes;
  try {
    for (const Task& task : read_graph(store, submission.run).tasks) bytes[task.plan_key] = task.resources.mem_bytes;
  } catch (const support::ArtifactError&) {
    // A damaged run must not prevent a submission.
  }
  return bytes;
}

/// Empty where another user has closed the folder: its memory is unknown, and the task asks for its usual one.
std::vector<fs::path> attempts_of(const Store& store, const std::string& plan_key) try {
  return store.attempts(plan_key);
} catch (const support::IoError& error) {
  if (!is_denied(error)) throw;
  return {};
}

void note(const Store& store, const Submission& submission, const std::string& plan_key, std::int64_t had) {
  const auto attempts = attempts_of(store, plan_key);
  if (attempts.empty() || had <= 0) return;
  const fs::path& newest = attempts.back();
  Json exit = read_of_attempt(newest, "exit.json");
  const std::string owner = support::text_in(read_of_attempt(newest, "owner.json"), "run");
  if (!owner.empty() && owner != submission.run) return;  // it may run now
  if (exit.is_object()) {
    const bool cut_off = support::text_in(exit, "class") == "transient" && support::field_or(exit, "signal", 0) == 9;
    if (!cut_off || support::text_in(exit, "run") != submission.run) return;
  } else {
    constexpr double kApart = 60;  // seconds between the clocks of two machines
    struct stat status {};
    const bool known = ::stat((newest / "task.json").c_str(), &status) == 0;
    if (!known || static_cast<double>(status.st_mtim.tv_sec) + kApart < submission.created)
      return;  // of an earlier run
    exit = {{"schema", "pe-exit/1"},
            {"run", submission.run},
            {"signal", 9},
            {"ended", support::utc_text(support::unix_time())}};
  }
  exit["class"] = "oom";
  exit["mem_bytes"] = had;
  try {
    support::write_file_atomically(newest / "exit.json", exit.dump(1) + "\n", false);
  } catch (const support::IoError& error) {
    if (!is_denied(error)) throw;  // another user's attempt
  }
}

}  // namespace

std::int64_t last_oom_memory_bytes(const Store& store, const std::string& plan_key) {
  const auto attempts = attempts_of(store, plan_key);
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt) {
    const Json json = read_of_attempt(*attempt, "exit.json");
    if (json.is_null()) continue;
    return support::text_in(json, "class") == "oom" ? support::field_or(json, "mem_bytes", std::int64_t{0}) : 0;
  }
  return 0;
}

void note_lost_to_memory(const Store& store, const std::vector<Submission>& open, const std::vector<JobRow>& rows,
                         Slurm& slurm) {
  const JobTable table(rows);
  const std::string kState = "OUT_OF_MEMORY";
  std::vector<std::string>
      asked;  // names of arrays with an element that did not end well, or of which nothing is known
  for (const Submission& submission : open) {
    for (const SubmittedArray& array : submission.arrays) {
      bool ask = false;
      for (const auto& [index, tasks] : array.elements) {
        const JobRow* row = table.find(array, index);
        ask = ask || !row || (is_final(row->state) && row->state != "COMPLETED");
      }
      if (ask && array.live_job.empty()) asked.push_back(array.name());
    }
  }
  std::map<std::pair<std::string, std::int64_t>, std::string> states;
  if (const auto ended = slurm.ended_named(asked)) {
    for (const EndedJob& job : *ended) states[{job.name, job.index}] = job.state;
  }
  for (const Submission& submission : open) {
    std::map<std::string, std::int64_t> bytes;
    for (const SubmittedArray& array : submission.arrays) {
      if (!array.live_job.empty()) continue;
      for (const auto& [index, tasks] : array.elements) {
        const JobRow* row = table.find(array, index);
        const auto told = states.find({array.name(), index});
        if (!(row && row->state == kState) && !(told != states.end() && told->second == kState)) continue;
        if (bytes.empty()) bytes = memory_of_tasks(store, submission);
        for (const std::size_t i : tasks) {
          const std::string& plan_key = submission.tasks[i].plan_key;
          note(store, submission, plan_key, bytes[plan_key]);
        }
      }
    }
  }
}

}  // namespace pe::pipeline
