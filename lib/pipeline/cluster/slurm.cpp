#include "pipeline/cluster/slurm.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "support/error.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::TimedCapture;

namespace {

constexpr std::size_t kLongestAnswer = 64u << 20;  // bytes: a queue of 400,000 jobs

bool went_well(const TimedCapture& answer) { return answer.status.code == 0 && !answer.timed_out && !answer.overlong; }

std::string said(const TimedCapture& answer, const std::string& program) {
  if (answer.overlong)
    return cat(program, " was stopped when it had printed ", support::short_bytes(static_cast<double>(kLongestAnswer)));
  const std::string text(support::trim(answer.err.empty() ? answer.out : answer.err));
  if (answer.timed_out) return cat(program, " did not answer in time", text.empty() ? "" : cat("; it says: ", text));
  return text.empty() ? cat(program, " ended with ", answer.status.code) : text;
}

/// Lines of scancel, less those on jobs that ended between question and order, which is no failure.
std::string without_ended_jobs(const std::string& text) {
  std::vector<std::string> rest;
  for (const std::string_view line : support::split(text, '\n')) {
    const bool ended = line.find("nvalid job id") != std::string_view::npos ||
                       line.find("already completing or completed") != std::string_view::npos;
    if (!ended && !support::trim(line).empty()) rest.emplace_back(line);
  }
  return support::join(rest, "\n");
}

}  // namespace

std::vector<std::string> plain_environment() {
  static constexpr std::string_view kKept[] = {"SLURM_CONF", "SLURM_CONF_SERVER"};
  static constexpr std::string_view kDropped[] = {"SBATCH_", "SLURM_", "SLURMD_",   "SRUN_",    "SALLOC_",
                                                  "SQUEUE_", "SACCT_", "SCONTROL_", "SCANCEL_", "SINFO_"};
  static constexpr std::string_view kOfJob[] = {"CUDA_VISIBLE_DEVICES",
                                                "ROCR_VISIBLE_DEVICES",
                                                "HIP_VISIBLE_DEVICES",
                                                "ZE_AFFINITY_MASK",
                                                "GPU_DEVICE_ORDINAL",
                                                "PMI_",
                                                "PMIX_",
                                                "OMPI_",
                                                "HYDRA_"};
  const bool in_job = std::getenv("SLURM_JOB_ID") != nullptr;
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry), name = text.substr(0, text.find('='));
    const bool kept = std::find(std::begin(kKept), std::end(kKept), name) != std::end(kKept);
    const auto begins_so = [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; };
    const bool dropped = std::any_of(std::begin(kDropped), std::end(kDropped), begins_so) ||
                         (in_job && std::any_of(std::begin(kOfJob), std::end(kOfJob), begins_so));
    if (kept || !dropped) environment.emplace_back(text);
  }
  return environment;
}

std::string user_name() {
  const passwd* user = ::getpwuid(::geteuid());
  return user ? user->pw_name : cat(::geteuid());
}

TimedCapture call_slurm(const std::vector<std::string>& arguments, const std::string& input, double limit_s) {
  support::CaptureLimits limits;
  limits.timeout_s = limit_s;
  limits.input = input;
  limits.limit = kLongestAnswer;
  limits.environment = plain_environment();
  return support::capture_within(arguments, limits);
}

bool Slurm::is_here() { return support::find_program("sbatch").has_value(); }

TimedCapture Slurm::call(const std::vector<std::string>& arguments, const std::string& input) {
  ++calls_;
  try {
    return call_(arguments, input, limit_s_);
  } catch (const support::IoError& error) {  // no such program
    TimedCapture answer;
    answer.status.code = 127;
    answer.err = error.diagnostics().front().message;
    return answer;
  }
}

std::optional<std::string> Slurm::ask(const std::vector<std::string>& arguments) {
  TimedCapture answer = call(arguments);
  if (went_well(answer)) return std::move(answer.out);
  trouble_ = answer.timed_out ? cat(arguments[0], " does not answer within ", support::short_duration(limit_s_))
             : answer.overlong
                 ? cat(said(answer, arguments[0]), ", which is no answer")
                 : cat(arguments[0], " does not answer (", answer.status.code, "): ", said(answer, arguments[0]));
  return std::nullopt;
}

SbatchReply Slurm::submit(const std::vector<std::string>& options, const std::string& script) {
  std::vector<std::string> words = {"sbatch", "--parsable"};
  words.insert(words.end(), options.begin(), options.end());
  const TimedCapture answer = call(words, script);
  SbatchReply submitted;
  if (went_well(answer)) {
    submitted.job = parse_submitted(answer.out);
    if (submitted.job.empty()) submitted.message = cat("sbatch printed no job id: ", support::trim(answer.out));
    return submitted;
  }
  submitted.message = said(answer, "sbatch");
  if (answer.status.code == 127)
    submitted.refusal = Refusal::kFinal;
  else if (!answer.timed_out || classify_refusal(answer.err) == Refusal::kFull)  // sbatch itself waits for room
    submitted.refusal = classify_refusal(answer.err);
  return submitted;
}

std::optional<std::vector<JobRow>> Slurm::queue(std::vector<std::string> arguments) {
  std::vector<std::string> words = {"squeue", "--noheader", "--array", "--states=all", cat("--format=", kQueueFormat)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const auto answer = ask(words);
  if (!answer) return std::nullopt;
  QueueAnswer parsed = parse_queue(*answer);
  if (parsed.damaged > 0) {  // half of an answer is none
    trouble_ = cat("squeue gives ", parsed.damaged, " lines that do not describe jobs");
    return std::nullopt;
  }
  return std::move(parsed.rows);
}

const std::string& Slurm::cluster() {
  if (cluster_.empty()) config();
  return cluster_;
}

std::optional<std::vector<JobRow>> Slurm::jobs_named(const std::vector<std::string>& names, const std::string& user) {
  if (names.empty()) return std::vector<JobRow>();
  return queue({cat("--name=", support::join(names, ",")), of_user(user)});
}

std::optional<std::vector<JobRow>> Slurm::own_jobs() { return jobs_of(user_); }

std::optional<std::vector<JobRow>> Slurm::jobs_of(const std::string& user) { return queue({of_user(user)}); }

std::string Slurm::of_user(const std::string& user) const {
  return user.empty() || user == user_ ? "--me" : cat("--user=", user);
}

std::optional<JobRow> Slurm::job(const std::string& id) {
  const auto rows = queue({cat("--jobs=", id)});
  if (!rows) return std::nullopt;
  for (const JobRow& row : *rows) {
    if (row.job == id || row.id() == id) return row;
  }
  return std::nullopt;
}

std::optional<std::vector<EndedJob>> Slurm::ended_named(const std::vector<std::string>& names,
                                                        const std::string& user) {
  if (names.empty()) return std::vector<EndedJob>();
  // Steps are included: Slurm may name a step alone as out of memory.
  const auto answer = ask({"sacct", "--noheader", "--parsable2", cat("--format=", kAccountFormat),
                           cat("--user=", user.empty() ? user_ : user), cat("--name=", support::join(names, ",")),
                           "--starttime=now-30days"});
  if (!answer) return std::nullopt;
  return parse_accounts(*answer);
}

std::string Slurm::cancel(const std::vector<std::string>& ids) {
  constexpr std::size_t kAtOnce = 2000;  // of a command line
  std::string failed;
  for (std::size_t from = 0; from < ids.size(); from += kAtOnce) {
    std::vector<std::string> words = {"scancel"};
    words.insert(words.end(), ids.begin() + static_cast<std::ptrdiff_t>(from),
                 ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), from + kAtOnce)));
    const TimedCapture answer = call(words);
    if (went_well(answer)) continue;
    const std::string text = said(answer, "scancel");
    const std::string rest = without_ended_jobs(text);
    if (answer.timed_out || answer.overlong || !rest.empty()) failed = rest.empty() ? text : rest;
  }
  return failed;
}

std::string Slurm::requeue(const std::string& id) {
  const TimedCapture answer = call({"scontrol", "requeue", id});
  return went_well(answer) ? "" : said(answer, "scontrol");
}

std::string Slurm::delay(const std::string& id, double seconds) {
  const TimedCapture answer =
      call({"scontrol", "update", cat("JobId=", id), cat("StartTime=now+", static_cast<std::int64_t>(seconds))});
  return went_well(answer) ? "" : said(answer, "scontrol");
}

std::optional<std::map<std::string, std::string>> Slurm::config() {
  const auto answer = ask({"scontrol", "show", "config"});
  if (!answer) return std::nullopt;
  auto config = parse_config(*answer);
  if (!config.count("SLURM_VERSION")) {
    trouble_ = "scontrol prints something else than the settings of a Slurm; `scontrol show config` shows it";
    return std::nullopt;
  }
  if (const auto name = config.find("ClusterName"); name != config.end()) cluster_ = name->second;
  return config;
}

std::optional<std::vector<std::map<std::string, std::string>>> Slurm::partitions() {
  const auto answer = ask({"scontrol", "--oneliner", "show", "partition"});
  if (!answer) return std::nullopt;
  return parse_records(*answer);
}

std::optional<std::vector<std::map<std::string, std::string>>> Slurm::associations() {
  // The accounts may have limits of other clusters too.
  std::vector<std::string> words = {"sacctmgr", "--parsable2", "show", "associations", "where", cat("user=", user_)};
  if (!cluster().empty()) words.push_back(cat("cluster=", cluster()));
  words.push_back("format=Account,MaxSubmit,GrpSubmit");
  const auto answer = ask(words);
  if (!answer) return std::nullopt;
  return parse_table(*answer);
}

}  // namespace pe::pipeline
