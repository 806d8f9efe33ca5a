#include "pipeline/cluster/site.h"

#include "pipeline/cluster/slurm_answers.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

std::string value(const std::map<std::string, std::string>& record, const std::string& key) {
  const auto found = record.find(key);
  return found == record.end() ? "" : found->second;
}

/// A limit as Slurm prints it, if it is one.
bool is_limit(const std::string& text) {
  return !text.empty() && text != "UNLIMITED" && text != "NONE" && text != "-1";
}

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

bool keeps_account_limits(const SiteConfig& config) {
  return mentions(value(config, "AccountingStorageType"), "slurmdbd") &&
         mentions(value(config, "AccountingStorageEnforce"), "limits");
}

std::int64_t most_in_queue(const SiteRecords& associations, const std::string& account) {
  std::int64_t most = 0;
  for (const auto& association : associations) {
    if (!account.empty() && value(association, "Account") != account) continue;
    for (const char* key : {"MaxSubmit", "GrpSubmit"}) {
      const std::int64_t limit = support::parse_integer(value(association, key)).value_or(0);
      if (limit > 0 && (most == 0 || limit < most)) most = limit;
    }
  }
  return most;
}

double usual_time(const SiteRecords& partitions, const std::string& partition) {
  for (const auto& one : partitions) {
    if (partition.empty() ? value(one, "Default") != "YES" : value(one, "PartitionName") != partition) continue;
    for (const char* key : {"DefaultTime", "MaxTime"}) {
      if (const double seconds = parse_elapsed(value(one, key)); seconds > 0) return seconds;
    }
  }
  return 0;
}

namespace {

void judge_preemption(const SiteConfig& config, const SiteRecords& partitions, std::vector<SiteFinding>& findings) {
  const std::string type = value(config, "PreemptType");
  if (type.empty() || type == "preempt/none") return;
  const bool signal = mentions(value(config, "SlurmctldParameters"), "preempt_send_user_signal");
  findings.push_back(
      {!signal,
       signal ? cat("preempted jobs are notified with USR1 (", type, ")")
              : cat("preempted jobs are not notified in advance (", type, " without preempt_send_user_signal)"),
       signal ? "" : "a job loses what it did since its last checkpoint; set checkpoint.every accordingly"});
  for (const auto& partition : partitions) {
    const std::string mode = value(partition, "PreemptMode"), name = value(partition, "PartitionName");
    if (mentions(mode, "CANCEL")) {
      findings.push_back({true, cat("partition ", name, " cancels preempted jobs (PreemptMode ", mode, ")"),
                          "`submit` again continues from their checkpoints"});
    }
    if (mentions(mode, "SUSPEND")) {
      findings.push_back({false, cat("partition ", name, " suspends preempted jobs (PreemptMode ", mode, ")"),
                          "a suspended job keeps its memory and continues later"});
    }
    if (mentions(mode, "REQUEUE") && value(partition, "GraceTime") == "0") {
      findings.push_back({true, cat("partition ", name, " gives preempted jobs no time (GraceTime 0)"),
                          "a job loses what it did since its last checkpoint"});
    }
  }
}

}  // namespace

std::vector<SiteFinding> judge_site(const SiteConfig& config, const SiteRecords& partitions,
                                    const SiteRecords& associations) {
  std::vector<SiteFinding> findings;
  std::string limits = cat("Slurm ", value(config, "SLURM_VERSION"));
  for (const char* key : {"MaxArraySize", "MaxJobCount", "MinJobAge", "KillWait"}) {
    if (const std::string text = value(config, key); !text.empty()) limits += cat(", ", key, " ", text);
  }
  findings.push_back({false, limits, ""});
  if (support::parse_integer(value(config, "MaxArraySize")).value_or(1001) <= 1)
    findings.push_back(
        {true, "job arrays are switched off (MaxArraySize)", "`submit` needs them; ask the administrators"});
  if (value(config, "JobRequeue") == "0") {
    findings.push_back(
        {false, "jobs are not requeued unless asked (JobRequeue 0); `submit` asks for each (--requeue)", ""});
  }
  for (const auto& association : associations) {
    for (const char* key : {"MaxSubmit", "GrpSubmit"}) {
      const std::string most = value(association, key);
      if (!is_limit(most)) continue;
      findings.push_back(
          {false, cat("account ", value(association, "Account"), " may have ", most, " jobs in the queue (", key, ")"),
           "`submit` sends no more than that at a time"});
    }
  }
  for (const auto& partition : partitions) {
    const std::string most = value(partition, "MaxTime"), usual = value(partition, "DefaultTime");
    if (!is_limit(most) && !is_limit(usual)) continue;
    std::string text = cat("partition ", value(partition, "PartitionName"), ":");
    if (is_limit(most)) text += cat(" a job may take ", most, " (MaxTime)");
    if (is_limit(usual))
      text += cat(is_limit(most) ? "," : "", " a job that names no time gets ", usual, " (DefaultTime)");
    findings.push_back({false, text, ""});
  }
  const std::string wait = value(config, "KillWait");
  if (const auto seconds = support::parse_integer(wait.substr(0, wait.find(' '))); seconds && *seconds < 30) {
    findings.push_back({true, cat("a job is killed ", *seconds, " s after TERM (KillWait)"),
                        "a stage that needs longer to save relies on `slurm.signal_lead`"});
  }
  judge_preemption(config, partitions, findings);
  const std::string accounting = value(config, "AccountingStorageType");
  if (mentions(accounting, "none")) {
    findings.push_back({false,
                        cat("no accounting: `status` knows of ended jobs only the run's own files, and Slurm's records "
                            "of the last ",
                            value(config, "MinJobAge")),
                        ""});
  }
  if (mentions(value(config, "DependencyParameters"), "kill_invalid_depend"))
    findings.push_back({false, "jobs that wait for a failed job are cancelled by the site (kill_invalid_depend)", ""});
  return findings;
}

}  // namespace pe::pipeline
