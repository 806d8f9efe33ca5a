// Pipelines handed to a real Slurm that this test starts: what comes of them, whatever happens to their jobs meanwhile.
#include <stdlib.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "end_to_end/project.h"
#include "support/real_slurm.h"
#include "support/text.h"

using namespace pe;        // NOLINT
using namespace pe::test;  // NOLINT

namespace {

/// One Slurm for all tests of this file; it takes a second to start.
RealSlurm& slurm() {
  static std::unique_ptr<RealSlurm> one = std::make_unique<RealSlurm>();
  return *one;
}

bool within(double seconds, const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < until) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return holds();
}

Json status(const Project& project) { return Json::parse(project.call("status", {"--json"}).out); }

std::map<std::string, int> phases(const Project& project) {
  std::map<std::string, int> counts;
  const Json answer = status(project);
  for (const auto& [phase, count] : answer.at("counts").items()) counts[phase] = count;
  return counts;
}

std::string phase_of(const Project& project, const std::string& id) {
  const Json answer = status(project);
  for (const Json& task : answer.at("tasks")) {
    if (task.at("id") == id) return task.at("phase");
  }
  return "none";
}

/// Logs of all jobs of a project, for messages.
std::string job_logs(const Project& project) {
  std::string text;
  for (const auto& entry : fs::recursive_directory_iterator(project.root() / "store/runs")) {
    if (entry.path().extension() == ".log") text += entry.path().filename().string() + ":\n" + support::read_file(entry.path());
  }
  return text + slurm().jobs();
}

/// What the same pipeline gives without any Slurm.
std::map<pipeline::ResultKey, std::string> undisturbed(const std::string& text = kToyPipeline) {
  const Project project(text);
  BOOST_TEST_REQUIRE(project.call("run").code == 0);
  return project.contents();
}

std::string slow_task(const std::string& more) {
  return "schema: pe-pipeline/1\nname: toy\nslurm: {signal_lead: 30s}\nstages:\n"
         "  long:\n    run: pe-toy\n    config: {set: {tokens: 160, step_s: 0.05, checkpoint_every: 5" +
         more + "}}\n";
}

std::size_t lines_with(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (const std::string& line : support::split(text, '\n')) count += has(line, part) ? 1 : 0;
  return count;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(slurm_end_to_end, *boost::unit_test::precondition(CanStartSlurm{}))

BOOST_AUTO_TEST_CASE(a_submitted_pipeline_comes_to_its_end_without_us_and_gives_the_same_bytes) {
  slurm();
  const Project project;
  // What a shell has set for sbatch must not reach the jobs.
  ::setenv("SBATCH_PARTITION", "there-is-none", 1);
  const Answer answer = project.call("submit");
  ::unsetenv("SBATCH_PARTITION");
  BOOST_TEST(answer.code == 0, answer.err);
  CHECK_HAS(answer.out, "toy: 8 elements in ");
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST((project.contents() == undisturbed()), job_logs(project));
  BOOST_TEST(fs::exists(project.root() / "reports/toy/latest/report.md"), job_logs(project));
  BOOST_TEST(fs::exists(project.root() / "out/toy/trunk/seed=1@s10.h5"));
  const Json answered = status(project);
  BOOST_TEST(answered.at("state") == "done", answered.dump(1));
  BOOST_TEST(phases(project)["done"] == 8, job_logs(project));
  const Answer again = project.call("submit");
  BOOST_TEST(again.code == 0);
  CHECK_HAS(again.out, "nothing to do");
}

BOOST_AUTO_TEST_CASE(what_is_printed_is_not_sent) {
  const Project project;
  const Answer answer = project.call("submit", {"--print", "--set", "slurm.partition=a $(b)"});
  BOOST_TEST(answer.code == 0, answer.err);
  CHECK_HAS(answer.out, "'--partition=a $(b)'");
  CHECK_HAS(answer.out, "exec ");
  CHECK_HAS(answer.out, "--dependency=aftercorr:<trunk.");
  BOOST_TEST(project.store().runs().empty());
}

BOOST_AUTO_TEST_CASE(a_failure_blocks_what_follows_it_alone_and_submitting_again_repairs) {
  slurm();
  const Project project;
  // It fails for good, whichever attempt.
  const Answer first = project.call("submit", {"--set", "trunk.fail=exit", "--axis", "seed=1,2", "--set", "trunk.fail_code=70"});
  BOOST_TEST(first.code == 0, first.err);
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  auto counts = phases(project);
  BOOST_TEST(counts["done"] == 1, job_logs(project));
  BOOST_TEST(counts["failed"] == 2, job_logs(project));
  BOOST_TEST(status(project).at("state") == "failed");
  // How it ends is in no key, so the same tasks are meant.
  const Answer again = project.call("submit");
  BOOST_TEST(again.code == 0, again.err);
  CHECK_HAS(again.out, "toy: 7 elements in ");
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST(status(project).at("state") == "done", job_logs(project));
  BOOST_TEST((project.contents() == undisturbed()));
}

BOOST_AUTO_TEST_CASE(what_is_cancelled_stays_cancelled_by_us_and_by_scancel) {
  slurm();
  for (const bool ours : {true, false}) {
    const Project project(slow_task(""));
    BOOST_TEST_REQUIRE(project.call("submit").code == 0);
    BOOST_TEST_REQUIRE(within(30, [&] { return phase_of(project, "long") == "running"; }), job_logs(project));
    if (ours) {
      const Answer answer = project.call("cancel");
      BOOST_TEST(answer.code == 0, answer.err);
      CHECK_HAS(answer.out, "everything cancelled");
    } else {
      const std::string job = status(project).at("tasks").at(0).at("job");
      BOOST_TEST(support::capture({"scancel", job}).status.code == 0);
    }
    BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
    // Longer than a job that was queued again would need to start.
    std::this_thread::sleep_for(std::chrono::seconds(8));
    BOOST_TEST(slurm().drain(1), job_logs(project));
    BOOST_TEST(project.contents().empty());
    BOOST_TEST(phase_of(project, "long") != "done");
    // It saved what it had, and goes on from there when it is asked for again.
    BOOST_TEST(project.call("submit").code == 0);
    BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
    BOOST_TEST((project.contents() == undisturbed(slow_task(""))), job_logs(project));
    CHECK_HAS(project.call("logs", {"long"}).out, "from step ");
    BOOST_TEST(!has(project.call("logs", {"long"}).out, "from step 0 "));
  }
}

BOOST_AUTO_TEST_CASE(a_preempted_task_saves_goes_on_and_gives_the_same_bytes) {
  slurm();
  const Project project(slow_task(""));
  BOOST_TEST_REQUIRE(project.call("submit").code == 0);
  for (int round = 0; round < 2; ++round) {
    BOOST_TEST_REQUIRE(within(40, [&] { return phase_of(project, "long") == "running"; }), job_logs(project));
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const auto urgent = support::capture({"sbatch", "--parsable", "--partition=urgent", "--exclusive", "--output=/dev/null",
                                          "--wrap=sleep 1"});
    BOOST_TEST_REQUIRE(urgent.status.code == 0, urgent.err);
    BOOST_TEST_REQUIRE(within(20, [&] { return phase_of(project, "long") != "running"; }), job_logs(project));
  }
  BOOST_TEST_REQUIRE(slurm().drain(90), job_logs(project));
  BOOST_TEST((project.contents() == undisturbed(slow_task(""))), job_logs(project));
  const std::string logs = job_logs(project);
  BOOST_TEST(lines_with(logs, "told to stop; queued again: it goes on from what it saved") == 2u, logs);
  BOOST_TEST(status(project).at("state") == "done");
}

BOOST_AUTO_TEST_CASE(an_edit_after_the_submission_does_not_reach_it_and_is_told) {
  slurm();
  const Project project(slow_task(", text: before"));
  const Answer first = project.call("submit", {"--set", "slurm.options=--hold"});
  BOOST_TEST_REQUIRE(first.code == 0, first.err);
  project.write(slow_task(", text: after"));
  const Answer second = project.call("submit");
  BOOST_TEST(second.code == 0, second.err);
  CHECK_HAS(second.out, "1 task in the queue was submitted from another version of this pipeline, and goes on as submitted");
  for (const std::string& line : support::split(slurm().queue("%F %T %r"), '\n')) {
    if (has(line, "JobHeldUser")) support::capture({"scontrol", "release", line.substr(0, line.find(' '))});
  }
  BOOST_TEST_REQUIRE(slurm().drain(90), job_logs(project));
  const auto contents = project.contents();
  BOOST_TEST(contents.size() == 2u, job_logs(project));
  for (const auto& [key, content] : undisturbed(slow_task(", text: before"))) BOOST_TEST(contents.count(key) == 1u);
}

BOOST_AUTO_TEST_CASE(a_small_window_and_lanes_come_to_the_same_end) {
  slurm();
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--set", "slurm.max_in_queue=3"}, {"--set", "slurm.mode=lane"}}) {
    const Project project;
    const Answer answer = project.call("submit", words);
    BOOST_TEST(answer.code == 0, answer.err);
    BOOST_TEST_REQUIRE(within(120, [&] { return slurm().drain(1) && status(project).at("state") == "done"; }),
                       job_logs(project));
    BOOST_TEST((project.contents() == undisturbed()), job_logs(project));
  }
}

BOOST_AUTO_TEST_CASE(a_refusal_of_the_site_is_told_and_nothing_is_left) {
  slurm();
  const Project project;
  const Answer answer = project.call("submit", {"--set", "slurm.partition=nowhere"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "nowhere");
  BOOST_TEST(slurm().drain(1));
  BOOST_TEST(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST((project.contents() == undisturbed()), job_logs(project));
}

BOOST_AUTO_TEST_SUITE_END()
