/// @file
/// Parsers for the output of Slurm's programs. They start no program and throw nothing, whatever the text. Unreadable
/// lines are counted and left out, so that a garbled answer differs from an empty one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pe::pipeline {

/// One job, or one element of an array, as squeue shows it.
struct JobRow {
  std::string array_job;    ///< Id that sbatch printed.
  std::string job;          ///< The job's id, as in SLURM_JOB_ID.
  std::int64_t index = -1;  ///< Index in the array; -1: not of one, or pending and not named.
  std::string state;        ///< Long form: "PENDING", "COMPLETING", ….
  std::string reason;       ///< "Dependency", "DependencyNeverSatisfied", …; "None" is empty
  std::string node;
  double run_s = -1, limit_s = -1;  ///< -1: unknown or none
  std::string name;

  /// "12_3".
  std::string id() const;
};

/// The format that squeue is asked for; names may hold anything and come last.
inline constexpr const char* kQueueFormat = "%F|%A|%K|%T|%r|%N|%M|%l|%j";

struct QueueAnswer {
  std::vector<JobRow> rows;
  std::size_t damaged = 0;  ///< lines that are no rows
};
QueueAnswer parse_queue(std::string_view text);

/// One job that is over, as sacct -n -P -o JobID,State,ExitCode,JobName shows it. Where the job has failed and one of
/// its steps ran out of memory, that is its state.
struct EndedJob {
  std::string array_job;
  std::int64_t index = -1;
  std::string state;  ///< first word: "CANCELLED", "FAILED", …
  std::string name;
};
inline constexpr const char* kAccountFormat = "JobID,State,ExitCode,JobName";
std::vector<EndedJob> parse_accounts(std::string_view text);

/// The id that sbatch --parsable prints, "12" or "12;cluster"; empty when there is none.
std::string parse_submitted(std::string_view text);

/// "Key = Value" lines of scontrol show config.
std::map<std::string, std::string> parse_config(std::string_view text);

/// Each line of scontrol --oneliner show partition: "Key=Value Key=Value".
std::vector<std::map<std::string, std::string>> parse_records(std::string_view text);

/// Output of sacctmgr --parsable2: names between '|' in the first line, values in the others.
std::vector<std::map<std::string, std::string>> parse_table(std::string_view text);

/// "1-02:03:04", "03:04", "UNLIMITED": seconds; -1 for other texts.
double parse_elapsed(std::string_view text);

/// Why sbatch refused, in a word.
enum class Refusal {
  kFinal,    ///< it would refuse again: partition, account, memory, array
  kFull,     ///< a limit on jobs in the queue: later
  kUnknown,  ///< no answer, or a lost one: the job may be there
};
Refusal classify_refusal(std::string_view message);

/// Whether a state is one that a job never leaves by itself.
bool is_final(std::string_view state);

/// The obstacle of a job that cannot start without a change by its user or an administrator, with the remedy. `reason`
/// is the one that squeue shows; the text is empty for reasons that pass with time.
std::string why_it_never_starts(const std::string& reason);

}  // namespace pe::pipeline
