// Findings of doctor about a site's limits, preemption and accounting.
#include "pipeline/cluster/site.h"

#include <boost/test/unit_test.hpp>

#include "pipeline/cluster/array_layout.h"
#include "pipeline/cluster/slurm_answers.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT

namespace {

/// A line a finding, "!" before warnings, advice after an arrow.
std::string judged(const SiteConfig& config, const SiteRecords& partitions = {}, const SiteRecords& associations = {}) {
  std::string text;
  for (const SiteFinding& finding : judge_site(config, partitions, associations))
    text += (finding.warns ? "! " : "") + finding.text + (finding.advice.empty() ? "" : " -> " + finding.advice) + "\n";
  return text;
}

void check_has(const std::string& text, const std::string& part) {
  BOOST_TEST(text.find(part) != std::string::npos, "expected '" << part << "' in:\n" << text);
}

void check_lacks(const std::string& text, const std::string& part) {
  BOOST_TEST(text.find(part) == std::string::npos, "unexpected '" << part << "' in:\n" << text);
}

const SiteConfig kPreempting{{"PreemptType", "preempt/partition_prio"}};
const SiteConfig kSignalling{{"PreemptType", "preempt/partition_prio"},
                             {"SlurmctldParameters", "enable_configless,preempt_send_user_signal"}};

}  // namespace

BOOST_AUTO_TEST_SUITE(cluster_site)

BOOST_AUTO_TEST_CASE(limits_are_told_as_they_are) {
  const std::string text = judged({{"SLURM_VERSION", "22.05.8"},
                                   {"MaxArraySize", "1001"},
                                   {"MaxJobCount", "10000"},
                                   {"MinJobAge", "300 sec"},
                                   {"KillWait", "30 sec"}});
  BOOST_TEST(text == "Slurm 22.05.8, MaxArraySize 1001, MaxJobCount 10000, MinJobAge 300 sec, KillWait 30 sec\n");
  // A setting that a site does not report is not criticised.
  BOOST_TEST(judged({}) == "Slurm \n");
}

BOOST_AUTO_TEST_CASE(a_job_that_names_no_time_is_told_no_sooner_than_in_the_middle_of_its_partitions) {
  const SiteRecords partitions = parse_records(
      "PartitionName=gpu DefaultTime=00:02:00 MaxTime=1-00:00:00\nPartitionName=long Default=YES DefaultTime=NONE "
      "MaxTime=UNLIMITED\nPartitionName=day DefaultTime=NONE MaxTime=1-00:00:00\n");
  BOOST_TEST(usual_time(partitions, "gpu") == 120);
  BOOST_TEST(usual_time(partitions, "day") == 86400);
  BOOST_TEST(usual_time(partitions, "") == 0);
  BOOST_TEST(usual_time(partitions, "none of them") == 0);
  JobArray array;
  array.policy.signal_lead_s = 120;
  BOOST_TEST(array.lead_s() == 120);
  array.usual_time_s = usual_time(partitions, "gpu");
  BOOST_TEST(array.lead_s() == 60);
  array.resources.time_s = 3600;
  BOOST_TEST(array.lead_s() == 120);
}

BOOST_AUTO_TEST_CASE(a_site_without_arrays_cannot_be_used) {
  for (const char* most : {"0", "1"})
    check_has(judged({{"MaxArraySize", most}}), "! job arrays are switched off (MaxArraySize) -> `submit` needs them");
  check_lacks(judged({{"MaxArraySize", "2"}}), "arrays are");
}

BOOST_AUTO_TEST_CASE(limits_of_accounts_and_of_partitions_come_with_the_setting_that_keeps_to_them) {
  const SiteRecords associations = parse_table("Account|MaxSubmit|GrpSubmit\nlab|4|\nroot||\nall|-1|200\n");
  const std::string text = judged({}, {}, associations);
  check_has(text,
            "\naccount lab may have 4 jobs in the queue (MaxSubmit) -> `submit` sends no more than that at a time\n");
  check_has(text, "account all may have 200 jobs in the queue (GrpSubmit)");
  check_lacks(text, "account root");
  BOOST_TEST(most_in_queue(associations, "lab") == 4);
  BOOST_TEST(most_in_queue(associations, "root") == 0);
  BOOST_TEST(most_in_queue(associations, "all") == 200);
  BOOST_TEST(most_in_queue(associations, "") == 4);
  BOOST_TEST(most_in_queue({}, "lab") == 0);
  BOOST_TEST(keeps_account_limits({{"AccountingStorageType", "accounting_storage/slurmdbd"},
                                   {"AccountingStorageEnforce", "associations,limits,qos"}}));
  BOOST_TEST(!keeps_account_limits(
      {{"AccountingStorageType", "accounting_storage/slurmdbd"}, {"AccountingStorageEnforce", "none"}}));
  BOOST_TEST(!keeps_account_limits({}));
  check_lacks(text, "-1");
  const SiteRecords partitions = parse_records(
      "PartitionName=short MaxTime=02:00:00 DefaultTime=00:10:00\nPartitionName=open MaxTime=UNLIMITED "
      "DefaultTime=NONE\n"
      "PartitionName=some MaxTime=UNLIMITED DefaultTime=01:00:00\n");
  const std::string times = judged({}, partitions);
  check_has(
      times,
      "partition short: a job may take 02:00:00 (MaxTime), a job that names no time gets 00:10:00 (DefaultTime)\n");
  check_has(times, "partition some: a job that names no time gets 01:00:00 (DefaultTime)\n");
  check_lacks(times, "partition open");
}

BOOST_AUTO_TEST_CASE(little_time_after_term_is_a_warning) {
  check_has(judged({{"KillWait", "5 sec"}}),
            "! a job is killed 5 s after TERM (KillWait) -> a stage that needs longer");
  for (const char* wait : {"30 sec", "garbled", ""}) check_lacks(judged({{"KillWait", wait}}), "is killed");
}

BOOST_AUTO_TEST_CASE(requeues_that_must_be_asked_for_are_asked_for) {
  check_has(judged({{"JobRequeue", "0"}}),
            "jobs are not requeued unless asked (JobRequeue 0); `submit` asks for each (--requeue)");
  check_lacks(judged({{"JobRequeue", "1"}}), "requeued unless");
}

BOOST_AUTO_TEST_CASE(preemption_without_notice_costs_what_came_after_the_last_checkpoint) {
  const SiteRecords none = parse_records("PartitionName=main PreemptMode=REQUEUE GraceTime=0\n");
  std::string text = judged(kPreempting, none);
  check_has(text,
            "! preempted jobs are not notified in advance (preempt/partition_prio without preempt_send_user_signal)");
  check_has(text, "set checkpoint.every accordingly");
  check_has(text, "! partition main gives preempted jobs no time (GraceTime 0)");
  text = judged(kSignalling, parse_records("PartitionName=main PreemptMode=REQUEUE GraceTime=60\n"));
  check_has(text, "\npreempted jobs are notified with USR1 (preempt/partition_prio)\n");
  check_lacks(text, "!");
  // Where nothing is preempted, the rest is of no interest.
  for (const char* type : {"preempt/none", ""}) check_lacks(judged({{"PreemptType", type}}, none), "preempt");
}

BOOST_AUTO_TEST_CASE(what_happens_to_preempted_jobs_is_told_of_each_partition) {
  const std::string text = judged(kSignalling, parse_records("PartitionName=spot PreemptMode=CANCEL GraceTime=30\n"
                                                             "PartitionName=gang PreemptMode=GANG,SUSPEND GraceTime=0\n"
                                                             "PartitionName=safe PreemptMode=OFF GraceTime=0\n"));
  check_has(text,
            "! partition spot cancels preempted jobs (PreemptMode CANCEL) -> `submit` again continues from their "
            "checkpoints");
  check_has(text, "\npartition gang suspends preempted jobs (PreemptMode GANG,SUSPEND)");
  check_lacks(text, "safe");
  check_lacks(text, "GraceTime 0");
}

BOOST_AUTO_TEST_CASE(what_can_be_known_of_ended_jobs_is_told) {
  check_has(
      judged({{"AccountingStorageType", "accounting_storage/none"}, {"MinJobAge", "300 sec"}}),
      "no accounting: `status` knows of ended jobs only the run's own files, and Slurm's records of the last 300 sec");
  check_lacks(judged({{"AccountingStorageType", "accounting_storage/slurmdbd"}}), "accounting");
  check_has(judged({{"DependencyParameters", "disable_remote_singleton,kill_invalid_depend"}}),
            "jobs that wait for a failed job are cancelled by the site (kill_invalid_depend)");
}

BOOST_AUTO_TEST_SUITE_END()
