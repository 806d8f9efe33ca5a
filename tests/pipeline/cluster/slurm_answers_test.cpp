// Answers of Slurm's programs, whole, strange and garbled.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <random>
#include <string>

#include <stdlib.h>

#include "pipeline/cluster/slurm.h"
#include "pipeline/cluster/slurm_answers.h"
#include "support/files.h"
#include "support/temp_folder.h"

using namespace pe::pipeline;  // NOLINT

BOOST_AUTO_TEST_SUITE(slurm_answers)

BOOST_AUTO_TEST_CASE(rows_of_the_queue_are_read_whatever_a_name_holds) {
  const QueueAnswer answer = parse_queue(
      "2|3|0|RUNNING|None|vm|0:02|365-00:00:00|my job;|$(x)\n"
      "2|2|1|PENDING|Dependency||0:00|1:00:00|trunk.0123456789ab\n"
      "4|4|N/A|COMPLETING|None|vm|1-02:03:04|UNLIMITED|wrap\n");
  BOOST_TEST(answer.damaged == 0u);
  BOOST_TEST_REQUIRE(answer.rows.size() == 3u);
  BOOST_TEST(answer.rows[0].name == "my job;|$(x)");
  BOOST_TEST(answer.rows[0].job == "3");
  BOOST_TEST(answer.rows[0].id() == "2_0");
  BOOST_TEST(answer.rows[0].reason == "");
  BOOST_TEST(answer.rows[0].run_s == 2);
  BOOST_TEST(answer.rows[0].limit_s == 365 * 86400.0);
  BOOST_TEST(answer.rows[1].reason == "Dependency");
  BOOST_TEST(answer.rows[1].node == "");
  BOOST_TEST(answer.rows[2].id() == "4");
  BOOST_TEST(answer.rows[2].run_s == 86400.0 + 2 * 3600 + 3 * 60 + 4);
  BOOST_TEST(answer.rows[2].limit_s == -1);
}

BOOST_AUTO_TEST_CASE(a_preempted_job_in_the_queue_has_ended) {
  // One that Slurm queues again is PENDING.
  for (const char* ended : {"PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY"}) BOOST_TEST(is_final(ended), ended);
  for (const char* open : {"PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "COMPLETING"})
    BOOST_TEST(!is_final(open), open);
}

BOOST_AUTO_TEST_CASE(jobs_that_ended_do_not_hide_one_that_was_not_cancelled) {
  std::string says;
  Slurm slurm([&](const std::vector<std::string>& words, const std::string&, double) {
    pe::support::TimedCapture captured;
    captured.status.code = words[0] == "scancel" && !says.empty() ? 1 : 0;
    captured.err = says;
    return captured;
  });
  BOOST_TEST(slurm.cancel({"1", "2"}) == "");
  const std::string gone =
      "scancel: error: Kill job error on job id 1: Invalid job id specified\n"
      "scancel: error: Kill job error on job id 3: Job/step already completing or completed\n";
  says = gone;
  BOOST_TEST(slurm.cancel({"1", "3"}) == "");
  const std::string lost = "scancel: error: Kill job error on job id 2: Socket timed out on send/recv operation";
  says = gone + lost + "\n";
  BOOST_TEST(slurm.cancel({"1", "2", "3"}) == lost);
}

BOOST_AUTO_TEST_CASE(a_garbled_answer_is_told_from_an_empty_one) {
  BOOST_TEST(parse_queue("").damaged == 0u);
  BOOST_TEST(parse_queue("\n\n").damaged == 0u);
  for (const char* bad : {"slurm_load_jobs error: Unable to contact slurm controller\n", "2|3|0|RUN",
                          "x|3|0|RUNNING|||||n", "2|3|0|running|None|vm|0:02|1:00|n", "|||||||||\n"}) {
    BOOST_TEST(parse_queue(bad).damaged == 1u, bad);
    BOOST_TEST(parse_queue(bad).rows.empty(), bad);
  }
}

BOOST_AUTO_TEST_CASE(ended_jobs_come_from_the_accounts) {
  const auto jobs = parse_accounts(
      "2_0|CANCELLED by 0|0:15|trunk.abc\n2_[3-9]|PENDING|0:0|trunk.abc\n7|FAILED|1:0|last.def|with a bar\nnonsense\n");
  BOOST_TEST_REQUIRE(jobs.size() == 2u);
  BOOST_TEST(jobs[0].state == "CANCELLED");
  BOOST_TEST(jobs[0].index == 0);
  BOOST_TEST(jobs[1].state == "FAILED");
  BOOST_TEST(jobs[1].name == "last.def|with a bar");
}

BOOST_AUTO_TEST_CASE(memory_that_a_step_lacked_is_the_state_of_its_failed_job) {
  const auto jobs = parse_accounts(
      "2_0|FAILED|9:0|a\n2_0.batch|OUT_OF_MEMORY|0:125|batch\n2_0.extern|COMPLETED|0:0|extern\n"
      "2_1|COMPLETED|0:0|a\n2_1.0|OUT_OF_MEMORY|0:125|step\n2_2|FAILED|1:0|a\n2_2.batch|FAILED|1:0|batch\n");
  BOOST_TEST_REQUIRE(jobs.size() == 3u);
  BOOST_TEST(jobs[0].state == "OUT_OF_MEMORY");
  BOOST_TEST(jobs[0].name == "a");
  BOOST_TEST(jobs[1].state == "COMPLETED");
  BOOST_TEST(jobs[2].state == "FAILED");
}

BOOST_AUTO_TEST_CASE(reasons_that_time_does_not_end_are_told_with_what_helps) {
  BOOST_TEST(why_it_never_starts("PartitionNodeLimit").find("change `resources` or `slurm.partition`") !=
             std::string::npos);
  BOOST_TEST(!why_it_never_starts("PartitionConfig").empty());
  BOOST_TEST(!why_it_never_starts("QOSMaxCpuPerJobLimit").empty());
  for (const char* passes : {"", "Priority", "Resources", "Dependency", "QOSMaxJobsPerUserLimit", "BeginTime"})
    BOOST_TEST(why_it_never_starts(passes).empty(), passes);
}

BOOST_AUTO_TEST_CASE(ids_times_and_records) {
  BOOST_TEST(parse_submitted("12\n") == "12");
  BOOST_TEST(parse_submitted("12;cluster\n") == "12");
  BOOST_TEST(parse_submitted("the site says: hello\n13\n") == "13");
  BOOST_TEST(parse_submitted("Submitted batch job\n") == "");
  BOOST_TEST(parse_elapsed("03:04") == 184);
  BOOST_TEST(parse_elapsed("INVALID") == -1);
  BOOST_TEST(parse_elapsed("1:2:3:4") == -1);
  const auto config = parse_config("Configuration data as of 2026\nMaxArraySize            = 101\nKillWait = 5 sec\n");
  BOOST_TEST(config.at("MaxArraySize") == "101");
  BOOST_TEST(config.at("KillWait") == "5 sec");
  const auto records = parse_records("PartitionName=main MaxTime=UNLIMITED GraceTime=10\n");
  BOOST_TEST_REQUIRE(records.size() == 1u);
  BOOST_TEST(records[0].at("GraceTime") == "10");
  const auto table = parse_table("Account|MaxSubmit|GrpSubmit\nlab|4|\nhalf a line\nroot||\n");
  BOOST_TEST_REQUIRE(table.size() == 2u);
  BOOST_TEST(table[0].at("MaxSubmit") == "4");
  BOOST_TEST(table[1].at("Account") == "root");
  BOOST_TEST(table[1].at("MaxSubmit") == "");
}

BOOST_AUTO_TEST_CASE(refusals_are_told_from_answers_that_were_lost) {
  const auto is = [](const char* text, Refusal refusal) { BOOST_TEST((classify_refusal(text) == refusal), text); };
  is("sbatch: error: Batch job submission failed: Invalid partition name specified", Refusal::kFinal);
  is("sbatch: error: Batch job submission failed: Invalid job array specification", Refusal::kFinal);
  is("sbatch: unrecognized option '--foo'", Refusal::kFinal);
  is("sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates "
     "accounting/QOS "
     "policy (job submit limit, user's size and/or time limits)",
     Refusal::kFull);
  is("sbatch: error: AssocMaxWallDurationPerJobLimit\nsbatch: error: Batch job submission failed: Job violates "
     "accounting/QOS policy (job submit limit, user's size and/or time limits)",
     Refusal::kFinal);
  // The same sentence follows every limit: only one on the number of jobs passes with time.
  is("sbatch: error: QOSMaxGRESPerUser\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy "
     "(job submit limit, user's size and/or time limits)",
     Refusal::kFinal);
  is("sbatch: error: AssocGrpSubmitJobsLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS "
     "policy (job submit limit, user's size and/or time limits)",
     Refusal::kFull);
  is("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", Refusal::kFull);
  is("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
     Refusal::kUnknown);
  is("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", Refusal::kUnknown);
  is("", Refusal::kUnknown);
}

BOOST_AUTO_TEST_CASE(settings_that_are_none_are_no_answer) {
  std::string out = "ClusterName = alpha\nSLURM_VERSION = 22.05.8\n";
  Slurm slurm([&](const std::vector<std::string>&, const std::string&, double) {
    pe::support::TimedCapture answer;
    answer.out = out;
    return answer;
  });
  BOOST_TEST(slurm.cluster() == "alpha");
  out = "%PDF-1.4 = x\n";
  BOOST_TEST(!slurm.config().has_value());
  BOOST_TEST(slurm.trouble().find("scontrol prints something else") == 0u);
}

BOOST_AUTO_TEST_CASE(an_answer_without_end_is_none_and_costs_seconds) {
  const pe::test::TempFolder folder;
  const std::string path = ::getenv("PATH");
  pe::support::write_file_atomically(folder / "squeue",
                                     "#!/bin/sh\nexec yes '2|3|0|RUNNING|None|vm|0:02|1:00:00|name'\n", false);
  std::filesystem::permissions(folder / "squeue", std::filesystem::perms::owner_all);
  ::setenv("PATH", (folder.path().string() + ":" + path).c_str(), 1);
  const auto begin = std::chrono::steady_clock::now();
  Slurm slurm;
  BOOST_TEST(!slurm.own_jobs().has_value());
  BOOST_TEST(slurm.trouble() == "squeue was stopped when it had printed 64.0 MiB, which is no answer");
  BOOST_TEST((std::chrono::steady_clock::now() - begin < std::chrono::seconds(30)));
  ::setenv("PATH", path.c_str(), 1);
}

BOOST_AUTO_TEST_CASE(a_full_queue_in_which_sbatch_waits_is_told_in_its_words) {
  Slurm slurm([](const std::vector<std::string>&, const std::string&, double) {
    pe::support::TimedCapture answer;
    answer.timed_out = true;
    answer.err = "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n";
    return answer;
  });
  const SbatchReply submitted = slurm.submit({}, "");
  BOOST_TEST((submitted.refusal == Refusal::kFull));
  BOOST_TEST(submitted.message ==
             "sbatch did not answer in time; it says: sbatch: error: Slurm temporarily unable to accept "
             "job, sleeping and retrying");
}

BOOST_AUTO_TEST_CASE(nothing_of_a_job_that_submits_reaches_the_jobs_that_it_submits) {
  const auto has = [](const std::string& name) {
    for (const std::string& entry : plain_environment()) {
      if (entry.rfind(name + "=", 0) == 0) return true;
    }
    return false;
  };
  const std::vector<std::string> of_job{"SLURM_JOB_ID",        "SLURM_MEM_PER_NODE",   "SLURM_CLUSTERS",
                                        "SBATCH_PARTITION",    "CUDA_VISIBLE_DEVICES", "PMIX_RANK",
                                        "OMPI_COMM_WORLD_RANK"};
  for (const std::string& name : of_job) ::setenv(name.c_str(), "7", 1);
  ::setenv("SLURM_CONF", "/etc/slurm.conf", 1);
  for (const std::string& name : of_job) BOOST_TEST(!has(name), name);
  BOOST_TEST(has("SLURM_CONF"));
  ::unsetenv("SLURM_JOB_ID");
  BOOST_TEST(has("CUDA_VISIBLE_DEVICES"));  // outside of a job it is the user's own choice
  for (const std::string& name : of_job) ::unsetenv(name.c_str());
  ::unsetenv("SLURM_CONF");
}

BOOST_AUTO_TEST_CASE(no_text_breaks_a_parser) {
  std::mt19937 random(17);
  const std::string good =
      "2|3|0|RUNNING|None|vm|0:02|365-00:00:00|name\n2_0|CANCELLED by 0|0:15|trunk.abc\nKey = Value\n12;c\nA=1 B=2\n";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    const int changes = static_cast<int>(random() % 12);
    for (int i = 0; i < changes; ++i) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
          break;
        default:
          text.insert(at, 1, "|\n_:-;=0"[random() % 8]);
      }
      if (text.empty()) text = "|";
    }
    for (const JobRow& row : parse_queue(text).rows) {
      BOOST_REQUIRE(!row.job.empty());
      BOOST_REQUIRE(row.index >= -1);
      is_final(row.state);
    }
    for (const EndedJob& job : parse_accounts(text)) BOOST_REQUIRE(job.index >= -1);
    const std::string id = parse_submitted(text);
    BOOST_REQUIRE(id.find_first_not_of("0123456789") == std::string::npos);
    BOOST_REQUIRE(parse_elapsed(text) >= -1);
    parse_config(text);
    parse_records(text);
    for (const auto& record : parse_table(text)) BOOST_REQUIRE(!record.empty());
    classify_refusal(text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
