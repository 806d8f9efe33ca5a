#include "pipeline/cluster/slurm_answers.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "support/text.h"

namespace pe::pipeline {

namespace {

using support::cat;

constexpr const char* kShortOfMemory = "OUT_OF_MEMORY";

/// A plain count, as Slurm prints ids; nothing else.
std::optional<std::int64_t> digits(std::string_view text) {
  if (text.empty() || text.size() > 12) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

template <typename Take>
void each_line(std::string_view text, const Take& take) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!support::trim(line).empty()) take(line);
  }
}

/// Fields between '|', the last of which takes what is left.
template <std::size_t N>
bool fields_of(std::string_view line, std::array<std::string_view, N>& fields) {
  for (std::size_t i = 0; i + 1 < N; ++i) {
    const auto bar = line.find('|');
    if (bar == std::string_view::npos) return false;
    fields[i] = line.substr(0, bar);
    line = line.substr(bar + 1);
  }
  fields[N - 1] = line;
  return true;
}

bool is_word(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

std::string JobRow::id() const { return index < 0 ? array_job : cat(array_job, "_", index); }

QueueAnswer parse_queue(std::string_view text) {
  QueueAnswer answer;
  each_line(text, [&](std::string_view line) {
    std::array<std::string_view, 9> fields;
    JobRow row;
    const bool whole = fields_of(line, fields) && digits(fields[0]) && digits(fields[1]) && is_word(fields[3]);
    if (!whole) {
      ++answer.damaged;
      return;
    }
    row.array_job = fields[0];
    row.job = fields[1];
    if (const auto index = digits(fields[2])) row.index = *index;
    row.state = fields[3];
    if (fields[4] != "None" && fields[4] != "(null)") row.reason = fields[4];
    if (fields[5] != "(null)") row.node = fields[5];
    row.run_s = parse_elapsed(fields[6]);
    row.limit_s = parse_elapsed(fields[7]);
    row.name = fields[8];
    answer.rows.push_back(std::move(row));
  });
  return answer;
}

std::vector<EndedJob> parse_accounts(std::string_view text) {
  std::vector<EndedJob> jobs;
  std::set<std::pair<std::string, std::int64_t>> short_of_memory;
  each_line(text, [&](std::string_view line) {
    std::array<std::string_view, 4> fields;
    if (!fields_of(line, fields)) return;
    EndedJob job;
    const auto dot = fields[0].find('.');  // "12_3.batch": a step
    const std::string_view number = fields[0].substr(0, dot);
    const auto line_of_index = number.find('_');
    const auto id = digits(number.substr(0, line_of_index));
    if (!id) return;
    job.array_job = number.substr(0, line_of_index);
    if (line_of_index != std::string_view::npos) {
      const auto index = digits(number.substr(line_of_index + 1));
      if (!index) return;  // "12_[3-9]": not started, squeue knows it
      job.index = *index;
    }
    job.state = fields[1].substr(0, fields[1].find(' '));
    if (!is_word(job.state)) return;
    if (dot != std::string_view::npos) {
      if (job.state == kShortOfMemory) short_of_memory.emplace(job.array_job, job.index);
      return;
    }
    job.name = fields[3];
    jobs.push_back(std::move(job));
  });
  for (EndedJob& job : jobs) {
    if (job.state == "FAILED" && short_of_memory.count({job.array_job, job.index})) job.state = kShortOfMemory;
  }
  return jobs;
}

std::string parse_submitted(std::string_view text) {
  std::string found;
  each_line(text, [&](std::string_view line) {
    // A site's plug-in may print other lines before.
    const std::string_view id = line.substr(0, line.find(';'));
    if (digits(id)) found = id;
  });
  return found;
}

std::map<std::string, std::string> parse_config(std::string_view text) {
  std::map<std::string, std::string> config;
  each_line(text, [&](std::string_view line) {
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) return;
    const std::string_view key = support::trim(line.substr(0, equals));
    if (!key.empty() && key.find(' ') == std::string_view::npos)
      config.emplace(key, support::trim(line.substr(equals + 1)));
  });
  return config;
}

std::vector<std::map<std::string, std::string>> parse_records(std::string_view text) {
  std::vector<std::map<std::string, std::string>> records;
  each_line(text, [&](std::string_view line) {
    std::map<std::string, std::string> record;
    for (const std::string& word : support::split(line, ' ')) {
      const auto equals = word.find('=');
      if (equals != std::string::npos && equals > 0) record.emplace(word.substr(0, equals), word.substr(equals + 1));
    }
    if (!record.empty()) records.push_back(std::move(record));
  });
  return records;
}

std::vector<std::map<std::string, std::string>> parse_table(std::string_view text) {
  std::vector<std::string> names;
  std::vector<std::map<std::string, std::string>> records;
  each_line(text, [&](std::string_view line) {
    const std::vector<std::string> values = support::split(line, '|');
    if (names.empty()) {
      names = values;
      return;
    }
    if (values.size() != names.size()) return;
    std::map<std::string, std::string> record;
    for (std::size_t i = 0; i < names.size(); ++i) record.emplace(names[i], values[i]);
    records.push_back(std::move(record));
  });
  return records;
}

double parse_elapsed(std::string_view text) {
  double days = 0;
  const auto dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto value = digits(text.substr(0, dash));
    if (!value) return -1;
    days = static_cast<double>(*value);
    text = text.substr(dash + 1);
  }
  double seconds = 0;
  int parts = 0;
  while (true) {
    const auto colon = text.find(':');
    const auto value = digits(text.substr(0, colon));
    if (!value || ++parts > 3) return -1;
    seconds = seconds * 60 + static_cast<double>(*value);
    if (colon == std::string_view::npos) break;
    text = text.substr(colon + 1);
  }
  return parts < 2 ? -1 : days * 86400 + seconds;
}

namespace {

/// "QOSMaxGRESPerUser", "AssocGrpCpuLimit": the limit that a line of sbatch's names by one word; empty when none does.
std::string_view limit_named(std::string_view message) {
  std::string_view found;
  each_line(message, [&](std::string_view line) {
    const auto colon = line.rfind(": ");
    const std::string_view word = support::trim(colon == std::string_view::npos ? line : line.substr(colon + 2));
    const bool begins = word.rfind("QOS", 0) == 0 || word.rfind("Assoc", 0) == 0;
    if (begins && word.find(' ') == std::string_view::npos) found = word;
  });
  return found;
}

}  // namespace

Refusal classify_refusal(std::string_view message) {
  // The sentence below such a line is the same for every limit. Only one on the number of jobs passes with time; any
  // other at this moment is a limit that this job alone exceeds, however empty the queue is.
  if (const std::string_view limit = limit_named(message); !limit.empty())
    return contains(limit, "SubmitJob") || contains(limit, "Jobs") ? Refusal::kFull : Refusal::kFinal;
  for (const char* full :
       {"SubmitJob", "MaxSubmit", "QOSMaxSubmit", "AssocMaxSubmit", "Job violates accounting/QOS policy",
        "temporarily unable to accept job", "Job limit", "maximum number of jobs"}) {
    if (contains(message, full)) return Refusal::kFull;
  }
  for (const char* lost : {"Unable to contact", "timed out", "Timed out", "Zero Bytes", "Connection refused",
                           "Connection reset", "Unexpected message", "Communication", "not responding", "Send/recv",
                           "try again", "Resource temporarily", "in standby", "No route to host", "munge", "Munge"}) {
    if (contains(message, lost)) return Refusal::kUnknown;
  }
  if (contains(message, "Batch job submission failed") || contains(message, "sbatch: unrecognized") ||
      contains(message, "sbatch: error") || contains(message, "sbatch: fatal") || contains(message, "nvalid"))
    return Refusal::kFinal;
  return Refusal::kUnknown;
}

bool is_final(std::string_view state) {
  for (const char* ended : {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "DEADLINE",
                            "BOOT_FAIL", "PREEMPTED", "REVOKED"}) {
    if (state == ended) return true;
  }
  return false;
}

std::string why_it_never_starts(const std::string& reason) {
  static const std::map<std::string, const char*, std::less<>> kReasons{
      {"PartitionNodeLimit", "its partition has fewer nodes, CPUs or memory; change `resources` or `slurm.partition`"},
      {"PartitionConfig", "the settings of its partition forbid it; change `resources` or `slurm.partition`"},
      {"PartitionTimeLimit", "it asks for more time than its partition allows; change `resources.time`"},
      {"BadConstraints", "no node has what it asks for; change `slurm.constraint` or `resources`"},
      {"AccountNotAllowed", "its partition does not take this account; change `slurm.account` or `slurm.partition`"},
      {"QOSNotAllowed", "this QOS is not allowed there; change `slurm.qos`"},
      {"InvalidAccount", "Slurm no longer knows its account; change `slurm.account`"},
      {"InvalidQOS", "Slurm no longer knows its QOS; change `slurm.qos`"},
      {"ReservationDeleted", "its reservation is gone; change `slurm.reservation`"},
      {"JobHeldUser", "it is held; `scontrol release` lets it start"},
      {"JobHeldAdmin", "an administrator holds it"},
      {"DependencyNeverSatisfied", "a job that it waits for has failed"},
  };
  if (const auto found = kReasons.find(reason); found != kReasons.end()) return found->second;
  const bool of_job = contains(reason, "PerJob") || reason.rfind("QOSMin", 0) == 0;
  return of_job ? "it asks for more, or less, than a limit allows; change `resources` or `slurm.qos`" : "";
}

}  // namespace pe::pipeline
