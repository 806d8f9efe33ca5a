#include "pipeline/cluster/site.h"

#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

std::string value(const std::map<std::string, std::string>& record, const std::string& key) {
  const auto found = record.find(key);
  return found == record.end() ? "" : found->second;
}

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

std::vector<SiteFinding> judge_site(const SiteConfig& config, const SiteRecords& partitions) {
  std::vector<SiteFinding> findings;
  std::string limits = cat("Slurm ", value(config, "SLURM_VERSION"));
  for (const char* key : {"MaxArraySize", "MaxJobCount", "MinJobAge", "KillWait"}) {
    if (const std::string text = value(config, key); !text.empty()) limits += cat(", ", key, " ", text);
  }
  findings.push_back({false, limits, ""});
  if (support::parse_integer(value(config, "MaxArraySize")).value_or(1001) <= 1)
    findings.push_back({true, "job arrays are switched off (MaxArraySize)", "`submit` needs them; ask the administrators"});
  if (value(config, "JobRequeue") == "0") {
    findings.push_back({false, "jobs are not requeued unless asked (JobRequeue 0); `submit` asks for each (--requeue)", ""});
  }
  const std::string wait = value(config, "KillWait");
  if (const auto seconds = support::parse_integer(wait.substr(0, wait.find(' '))); seconds && *seconds < 30) {
    findings.push_back({true, cat("a job is killed ", *seconds, " s after TERM (KillWait)"),
                        "a stage that needs longer to save relies on `slurm.signal_lead`"});
  }
  const std::string type = value(config, "PreemptType");
  if (!type.empty() && type != "preempt/none") {
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
      if (mentions(mode, "REQUEUE") && value(partition, "GraceTime") == "0") {
        findings.push_back({true, cat("partition ", name, " gives preempted jobs no time (GraceTime 0)"),
                            "a job loses what it did since its last checkpoint"});
      }
    }
  }
  const std::string accounting = value(config, "AccountingStorageType");
  if (mentions(accounting, "none")) {
    findings.push_back({false, cat("no accounting: of ended jobs `status` knows what the run itself wrote, and what Slurm "
                                   "remembers for ", value(config, "MinJobAge")), ""});
  }
  if (mentions(value(config, "DependencyParameters"), "kill_invalid_depend"))
    findings.push_back({false, "jobs that wait for what failed are cancelled by the site (kill_invalid_depend)", ""});
  return findings;
}

}  // namespace pe::pipeline
