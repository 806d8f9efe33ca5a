// Submissions sent to a controller that loses answers, refuses, falls silent and fills up.
#include <sys/stat.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "pipeline/cluster/allocation.h"
#include "pipeline/cluster/fake_slurm.h"
#include "pipeline/cluster/finalizer.h"
#include "pipeline/cluster/job_leases.h"
#include "pipeline/cluster/job_states.h"
#include "pipeline/cluster/submission.h"
#include "pipeline/cluster/submit_lease.h"
#include "pipeline/cluster/too_little_memory.h"
#include "pipeline/grid_fixture.h"
#include "pipeline/run/run_folder.h"
#include "pipeline/store/attempt.h"
#include "support/as_plain_user.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using namespace pe::test;      // NOLINT

namespace {

/// A submission of the grid, written into a store.
class Submitted900 {
 public:
  explicit Submitted900(std::int64_t largest = 1001, std::int64_t max_in_queue = 0, const std::string& user = "",
                        const std::string& cluster = "")
      : graph(folder_.keyed(kGrid)), store(folder_.path("store"), StoreOptions{.durable = false}) {
    Grouping grouping;
    grouping.largest_array = largest;
    RunOptions options;
    const FakeStore nothing;
    plan = make_plan(graph, nothing);
    SubmissionRequest order;
    order.store = folder_.path("store");
    order.program = "/bin/pe-pipeline";
    order.command = {"pe-pipeline", "run", "grid.yml"};
    order.max_in_queue = max_in_queue;
    order.user = user;
    order.cluster = cluster;
    order.run = RunFolder(store, graph, plan, options).run_id();
    made = make_submission(graph, group(graph, std::vector<bool>(graph.tasks.size(), true), grouping), order);
    write_submission(store, graph, made);
  }
  const Submission& submission() const { return made.submission; }
  /// Fewer than tasks: eight evaluations share an element (`pack: 8`).
  std::size_t elements() const {
    std::size_t count = 0;
    for (const SubmittedArray& array : submission().arrays) count += array.elements.size();
    return count;
  }
  SendReport send_with(FakeSlurm& fake, std::int64_t room = 1'000'000) {
    Slurm slurm(fake.call());
    SendOptions options;
    options.pause_s = 0;
    options.room = room;
    return pipeline::send(store, submission(), slurm, options);
  }
  /// Each array is in the queue once, and so is one last job.
  void check_once(const FakeSlurm& fake) const {
    for (const SubmittedArray& array : submission().arrays)
      BOOST_TEST(fake.named(array.name()).size() == 1u, array.name());
    BOOST_TEST(fake.named(submission().last.name()).size() == 1u);
    BOOST_TEST(fake.jobs.size() == submission().arrays.size() + 1);
  }

 private:
  GridFolder folder_;

 public:
  Graph graph;
  Store store;
  Plan plan;
  PreparedSubmission made;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cluster_submission)

BOOST_AUTO_TEST_CASE(what_is_written_is_what_is_read) {
  const Submitted900 it;
  const auto read = read_submission(it.store, it.submission().run);
  BOOST_TEST_REQUIRE(read.has_value());
  BOOST_TEST(read->tasks.size() == 900u);
  BOOST_TEST_REQUIRE(read->arrays.size() == it.submission().arrays.size());
  for (std::size_t k = 0; k < read->arrays.size(); ++k) {
    BOOST_TEST(read->arrays[k].name() == it.submission().arrays[k].name());
    BOOST_TEST((read->arrays[k].elements == it.submission().arrays[k].elements));
    BOOST_TEST(read->arrays[k].options == it.submission().arrays[k].options);
    BOOST_TEST(read->arrays[k].script == it.submission().arrays[k].script);
  }
  BOOST_TEST(open_submissions(it.store).size() == 1u);
  BOOST_TEST(read_run(it.store, it.submission().run).cluster == "slurm");
  const auto path = it.store.runs_folder() / it.submission().run / "submission.json";
  support::write_file_atomically(path, "{\"schema\": \"pe-submission/1\"}", false);
  BOOST_CHECK_THROW(read_submission(it.store, it.submission().run), support::ArtifactError);
}

BOOST_AUTO_TEST_CASE(each_array_is_sent_once_and_sending_again_sends_nothing) {
  Submitted900 it;
  FakeSlurm fake;
  const SendReport report = it.send_with(fake);
  BOOST_TEST(report.failed == "");
  BOOST_TEST(report.elements == it.elements());
  BOOST_TEST(it.elements() < 900u);
  BOOST_TEST(report.last_is_sent);
  it.check_once(fake);
  const SendReport again = it.send_with(fake);
  BOOST_TEST(again.elements == 0u);
  it.check_once(fake);
  // Every dependency was sent before and is named by its id.
  std::set<std::string> before;
  for (const FakeSlurm::Job& job : fake.jobs) {
    for (const std::string& part : support::split(job.dependency, ',')) {
      const auto words = support::split(part, ':');
      for (std::size_t w = 1; w < words.size(); ++w)
        BOOST_TEST(before.count(words[w].substr(0, words[w].find('_'))) == 1u);
    }
    before.insert(job.id);
  }
}

BOOST_AUTO_TEST_CASE(lost_answers_and_dropped_calls_send_nothing_twice) {
  std::mt19937 random(11);
  for (int round = 0; round < 12; ++round) {
    Submitted900 it(101);
    FakeSlurm fake;
    fake.next = [&] {
      const auto chance = random() % 10;
      return chance < 2   ? FakeSlurm::Answer::kLost
             : chance < 4 ? FakeSlurm::Answer::kDropped
                          : FakeSlurm::Answer::kGood;
    };
    fake.silent = [&] { return random() % 4 == 0; };
    SendReport report;
    for (int tries = 0; tries < 40; ++tries) {
      report = it.send_with(fake);
      if (report.failed.empty() && report.last_is_sent) break;
    }
    BOOST_TEST(report.failed == "");
    it.check_once(fake);
  }
}

BOOST_AUTO_TEST_CASE(a_process_that_dies_between_intent_and_answer_is_gone_on_with) {
  // The intent is on disk, the job is there, the note of it is not.
  Submitted900 it(101);
  FakeSlurm fake;
  int left = 3;
  struct Died {};
  fake.next = [&]() -> FakeSlurm::Answer {
    if (--left == 0) throw Died{};
    return FakeSlurm::Answer::kGood;
  };
  BOOST_CHECK_THROW(it.send_with(fake), Died);
  BOOST_TEST(fake.jobs.size() == 2u);
  fake.next = [] { return FakeSlurm::Answer::kGood; };
  BOOST_TEST(it.send_with(fake).failed == "");
  it.check_once(fake);
}

BOOST_AUTO_TEST_CASE(a_process_that_dies_after_it_sent_the_last_job_is_gone_on_with) {
  Submitted900 it(101);
  FakeSlurm fake;
  struct Died {};
  fake.next = [&] {
    return fake.submissions > it.submission().arrays.size() ? FakeSlurm::Answer::kLost : FakeSlurm::Answer::kGood;
  };
  fake.silent = []() -> bool { throw Died{}; };
  BOOST_CHECK_THROW(it.send_with(fake), Died);
  BOOST_TEST(fake.jobs.size() == it.submission().arrays.size() + 1);
  fake.next = [] { return FakeSlurm::Answer::kGood; };
  fake.silent = [] { return false; };
  BOOST_TEST(it.send_with(fake).failed == "");
  it.check_once(fake);
}

BOOST_AUTO_TEST_CASE(a_refusal_is_told_and_nothing_follows_it) {
  Submitted900 it;
  FakeSlurm fake;
  fake.next = [&] { return fake.jobs.size() < 3 ? FakeSlurm::Answer::kGood : FakeSlurm::Answer::kRefused; };
  const SendReport report = it.send_with(fake);
  BOOST_TEST(report.failed.find("Invalid partition") != std::string::npos);
  BOOST_TEST((report.refusal == Refusal::kFinal));
  BOOST_TEST(fake.jobs.size() == 3u);
  BOOST_TEST(fake.submissions == 4u);
  fake.next = [] { return FakeSlurm::Answer::kGood; };
  BOOST_TEST(it.send_with(fake).failed == "");
  it.check_once(fake);
}

BOOST_AUTO_TEST_CASE(nothing_is_sent_again_while_the_queue_cannot_be_seen) {
  Submitted900 it;
  FakeSlurm fake;
  fake.next = [&] { return fake.jobs.size() < 3 ? FakeSlurm::Answer::kGood : FakeSlurm::Answer::kRefused; };
  it.send_with(fake);
  fake.next = [] { return FakeSlurm::Answer::kGood; };
  fake.silent = [] { return true; };
  const SendReport report = it.send_with(fake);
  BOOST_TEST(report.failed.find("squeue does not answer") != std::string::npos);
  BOOST_TEST(fake.jobs.size() == 3u);
}

BOOST_AUTO_TEST_CASE(windows_keep_to_the_room_and_the_last_job_of_each_goes_on) {
  Submitted900 it(50, 60);
  FakeSlurm fake;
  std::size_t windows = 0;
  while (windows < 200) {
    ++windows;
    const SendReport report = it.send_with(fake, 60);
    BOOST_TEST(report.failed == "");
    std::size_t pending = 0;
    for (const auto& job : fake.jobs) {
      for (const std::int64_t index : job.indices) pending += job.states.count(index) == 0;
    }
    BOOST_TEST(pending <= 60u);
    BOOST_TEST(report.last_is_sent);
    fake.end_all("COMPLETED");
    if (report.waiting == 0) break;
  }
  for (const SubmittedArray& array : it.submission().arrays) BOOST_TEST(fake.named(array.name()).size() == 1u);
  // An array that has ended when its reader is sent is not named.
  BOOST_TEST(windows > it.elements() / 60);
}

BOOST_AUTO_TEST_CASE(where_a_limit_of_the_site_is_met_the_last_job_goes_on) {
  Submitted900 it;
  FakeSlurm fake;
  // Full for the fourth array, and room for a last job.
  fake.next = [&] { return fake.submissions == 4 ? FakeSlurm::Answer::kFull : FakeSlurm::Answer::kGood; };
  const SendReport report = it.send_with(fake);
  BOOST_TEST(report.failed == "");
  BOOST_TEST(report.arrays == 3u);
  BOOST_TEST(report.elements + report.waiting == it.elements());
  BOOST_TEST(report.last_is_sent);
  BOOST_TEST(fake.jobs.size() == 4u);
  fake.end_all("COMPLETED");
  const SendReport rest = it.send_with(fake);
  BOOST_TEST(rest.failed == "");
  BOOST_TEST(rest.waiting == 0u);
  for (const SubmittedArray& array : it.submission().arrays) BOOST_TEST(fake.named(array.name()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(without_room_for_a_last_job_the_limit_is_told) {
  Submitted900 it;
  FakeSlurm fake;
  fake.next = [&] { return fake.jobs.size() < 3 ? FakeSlurm::Answer::kGood : FakeSlurm::Answer::kFull; };
  const SendReport report = it.send_with(fake);
  BOOST_TEST(report.failed.find("QOSMaxSubmitJobPerUserLimit") != std::string::npos);
  BOOST_TEST((report.refusal == Refusal::kFull));
  BOOST_TEST(!report.last_is_sent);
  BOOST_TEST(fake.submissions == 5u);
  // Not even the first array: nothing is in the queue that a last job could wait for.
  Submitted900 none;
  FakeSlurm full;
  full.next = [] { return FakeSlurm::Answer::kFull; };
  BOOST_TEST(none.send_with(full).failed.find("QOSMaxSubmitJobPerUserLimit") != std::string::npos);
  BOOST_TEST(full.submissions == 1u);
  full.next = [] { return FakeSlurm::Answer::kGood; };
  BOOST_TEST(none.send_with(full).failed == "");
  none.check_once(full);
}

BOOST_AUTO_TEST_CASE(where_other_jobs_leave_no_room_the_last_job_alone_looks_again) {
  Submitted900 it(50, 60);
  FakeSlurm fake;
  const SendReport report = it.send_with(fake, 1);
  BOOST_TEST(report.failed == "");
  BOOST_TEST(report.arrays == 0u);
  BOOST_TEST(report.waiting == it.elements());
  BOOST_TEST(report.last_is_sent);
  BOOST_TEST(report.looks_again);
  BOOST_TEST_REQUIRE(fake.jobs.size() == 1u);
  BOOST_TEST(fake.jobs.front().begin == "now+300");
  BOOST_TEST(fake.jobs.front().dependency == "");
  Slurm slurm(fake.call());
  RunStatus status = read_run(it.store, it.submission().run);
  add_jobs(status, it.store, slurm);
  BOOST_TEST(status.state == "queued");
  BOOST_TEST(status.tasks.front().reason == "not submitted yet: job 101_0 submits it when there is room in the queue");
  // Five minutes later there is.
  fake.end_all("COMPLETED");
  const SendReport later = it.send_with(fake, 60);
  BOOST_TEST(later.arrays > 0u);
  BOOST_TEST(later.last_is_sent);
  BOOST_TEST(!later.looks_again);
  BOOST_TEST(fake.jobs.back().begin == "");
}

BOOST_AUTO_TEST_CASE(a_queue_says_nothing_of_submissions_of_other_users_and_clusters) {
  Submitted900 it(1001, 0, "ann", "alpha");
  FakeSlurm fake;
  fake.cluster = "alpha";
  Slurm anns(fake.call(), 60, "ann"), bobs(fake.call(), 60, "bob");
  BOOST_TEST(is_own(it.submission(), anns));
  BOOST_TEST(!is_own(it.submission(), bobs));
  FakeSlurm other;
  other.cluster = "beta";
  Slurm elsewhere(other.call(), 60, "ann");
  BOOST_TEST(!is_own(it.submission(), elsewhere));
  const auto read = read_submission(it.store, it.submission().run);
  BOOST_TEST(read->user == "ann");
  BOOST_TEST(read->cluster == "alpha");
  for (Slurm* slurm : {&bobs, &elsewhere}) {
    BOOST_CHECK_EXCEPTION(
        go_on(it.store, it.submission().run, *slurm, ""), support::ConfigError, [](const auto& error) {
          return std::string(error.what()).find("was submitted by user 'ann' on cluster 'alpha'") != std::string::npos;
        });
  }
  it.send_with(fake);
  RunStatus status = read_run(it.store, it.submission().run);
  add_jobs(status, it.store, elsewhere);
  BOOST_TEST(status.state == "unknown");
  BOOST_TEST(status.trouble == "it was submitted by user 'ann' on cluster 'alpha', and here is cluster 'beta'");
  // Another user sees the output of Slurm, and concludes nothing where it is empty.
  status = read_run(it.store, it.submission().run);
  add_jobs(status, it.store, bobs);
  BOOST_TEST(status.state == "queued");
  fake.jobs.clear();
  status = read_run(it.store, it.submission().run);
  add_jobs(status, it.store, bobs);
  BOOST_TEST(status.state == "unknown");
  BOOST_TEST(status.trouble.find("its jobs belong to user 'ann'") == 0u, status.trouble);
}

BOOST_AUTO_TEST_CASE(a_submission_whose_jobs_are_all_gone_is_ended_by_the_next_one) {
  Submitted900 it;
  FakeSlurm fake;
  it.send_with(fake);
  Slurm slurm(fake.call());
  const auto summary = it.store.runs_folder() / it.submission().run / "summary.json";
  Submission old = it.submission();
  old.created -= 601;
  end_abandoned(it.store, {old}, *slurm.own_jobs(), slurm);
  BOOST_TEST(!std::filesystem::exists(summary));  // its jobs wait
  fake.jobs.clear();
  end_abandoned(it.store, {it.submission()}, *slurm.own_jobs(), slurm);
  BOOST_TEST(!std::filesystem::exists(summary));  // another process may be about to send it
  end_abandoned(it.store, {old}, *slurm.own_jobs(), slurm);
  BOOST_TEST_REQUIRE(std::filesystem::exists(summary));
  BOOST_TEST(read_run(it.store, it.submission().run).state == "incomplete");
}

BOOST_AUTO_TEST_CASE(a_submission_that_continues_after_its_end_is_open_again) {
  Submitted900 it;
  FakeSlurm fake;
  it.send_with(fake, 100);
  fake.jobs.clear();
  Slurm slurm(fake.call());
  const auto summary = it.store.runs_folder() / it.submission().run / "summary.json";
  Submission old = it.submission();
  old.created -= 601;
  end_abandoned(it.store, {old}, *slurm.own_jobs(), slurm);
  BOOST_TEST_REQUIRE(std::filesystem::exists(summary));
  BOOST_TEST(open_submissions(it.store).empty());
  BOOST_TEST(go_on(it.store, it.submission().run, slurm, "").sent.elements > 0U);
  BOOST_TEST(!std::filesystem::exists(summary));
  BOOST_TEST(open_submissions(it.store).size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_submission_goes_on_while_its_producers_run_as_jobs_of_an_earlier_one) {
  Submitted900 it;
  FakeSlurm fake;
  it.send_with(fake, 100);
  std::set<std::string> sent;
  Submission later = it.submission();
  for (SubmittedArray& array : later.arrays) {
    const auto jobs = fake.named(array.name());
    array.token += "b";
    if (jobs.empty()) continue;
    array.live_job = jobs.front()->id;
    sent.insert(array.live_job);
  }
  BOOST_TEST_REQUIRE(!sent.empty());
  BOOST_TEST_REQUIRE(sent.size() < later.arrays.size());
  later.last.token += "b";
  it.made.submission = later;
  write_submission(it.store, it.graph, it.made);
  std::filesystem::remove_all(it.store.runs_folder() / later.run / "sent");
  support::make_folders(it.store.runs_folder() / later.run / "sent");
  Slurm slurm(fake.call());
  const LastReport report = go_on(it.store, later.run, slurm, "");
  BOOST_TEST(!report.ended);
  BOOST_TEST(report.sent.elements > 0U);
}

BOOST_AUTO_TEST_CASE(one_submit_at_a_time_looks_at_the_queue) {
  Submitted900 it;
  FakeSlurm fake;
  Slurm slurm(fake.call());
  std::vector<std::string> told;
  auto first = std::make_unique<SubmitLease>(it.store, "grid", slurm, [](const std::string&) {});
  SubmitLease other(it.store, "another", slurm, [](const std::string&) {});
  std::thread second([&] {
    SubmitLease lease(it.store, "grid", slurm, [&](const std::string& text) {
      told.push_back(text);
      first.reset();
    });
  });
  second.join();
  BOOST_TEST_REQUIRE(told.size() == 1u);
  BOOST_TEST(told.front().find("waiting for another `submit` of 'grid', by process ") == 0u, told.front());
}

BOOST_AUTO_TEST_CASE(ten_thousand_elements_are_a_few_calls) {
  // The number of arrays decides the number of calls, so empty elements are enough.
  FakeSlurm fake;
  const GridFolder folder;
  const Store store(folder.path("store"), StoreOptions{.durable = false});
  Submission submission;
  submission.run = "many";
  for (int k = 0; k < 10; ++k) {
    SubmittedArray array;
    array.token = support::cat("token", k);
    array.label = "many";
    for (std::int64_t i = 0; i < 1000; ++i) array.elements[i] = {};
    array.options = {"--job-name=" + array.name(), "--array=" + index_list(array.elements)};
    array.script = "#!/bin/bash\n";
    if (k > 0) array.needs.push_back({ArrayNeed::Kind::kAfterCorr, static_cast<std::size_t>(k - 1), {}});
    submission.arrays.push_back(std::move(array));
  }
  submission.last = submission.arrays.front();
  submission.last.token = "last";
  submission.last.options = {"--job-name=" + submission.last.name(), "--array=0"};
  support::make_folders(store.runs_folder() / "many" / "sent");
  Slurm slurm(fake.call());
  const SendReport report = send(store, submission, slurm, {});
  BOOST_TEST(report.elements == 10'000u);
  BOOST_TEST(slurm.calls() <= 50u);
}

BOOST_AUTO_TEST_CASE(live_tasks_are_those_whose_jobs_will_run) {
  Submitted900 it;
  FakeSlurm fake;
  it.send_with(fake);
  Slurm slurm(fake.call());
  auto rows = *slurm.own_jobs();
  const auto all = live_tasks(it.store, {it.submission()}, rows);
  BOOST_TEST(all.by_plan_key.size() == 900u);
  BOOST_TEST(all.blocked.empty());
  std::size_t changed = 0;
  for (JobRow& row : rows) {
    if (row.name.rfind("decay", 0) != 0) continue;
    row.reason = "DependencyNeverSatisfied";
    ++changed;
  }
  const auto some = live_tasks(it.store, {it.submission()}, rows);
  BOOST_TEST(some.by_plan_key.size() == 900u - changed);
  BOOST_TEST(some.blocked.size() == changed);
  // An id that Slurm assigned again is distinguished by the name.
  for (JobRow& row : rows) row.name = "somebody-else";
  BOOST_TEST(live_tasks(it.store, {it.submission()}, rows).by_plan_key.empty());
  mark_cancelled(it.store, it.submission().run, {});
  BOOST_TEST(live_tasks(it.store, {it.submission()}, *slurm.own_jobs()).by_plan_key.empty());
}

BOOST_AUTO_TEST_CASE(marks_add_up_and_a_damaged_one_counts_as_all) {
  Submitted900 it;
  const std::string& run = it.submission().run;
  BOOST_TEST(!read_cancelled(it.store, run).covers("a"));
  mark_cancelled(it.store, run, {"a"});
  BOOST_TEST(read_cancelled(it.store, run).covers("a"));
  BOOST_TEST(!read_cancelled(it.store, run).covers("b"));
  support::write_file_atomically(it.store.runs_folder() / run / "cancelled" / "mark.9.json", "{", false);
  BOOST_TEST(read_cancelled(it.store, run).covers("b"));
}

BOOST_AUTO_TEST_CASE(status_says_what_the_queue_says_and_nothing_where_it_is_silent) {
  Submitted900 it;
  FakeSlurm fake;
  it.send_with(fake);
  Slurm slurm(fake.call());
  RunStatus status = read_run(it.store, it.submission().run);
  add_jobs(status, it.store, slurm);
  BOOST_TEST(slurm.calls() == 1u);
  BOOST_TEST(status.state == "queued");
  for (const TaskStatus& task : status.tasks) {
    BOOST_TEST(task.phase == "queued");
    BOOST_TEST(!task.job.empty());
  }
  fake.silent = [] { return true; };
  status = read_run(it.store, it.submission().run);
  add_jobs(status, it.store, slurm);
  BOOST_TEST(status.state == "unknown");
  BOOST_TEST(status.trouble.find("squeue does not answer") == 0u, status.trouble);
  for (const TaskStatus& task : status.tasks) BOOST_TEST(task.phase == "waiting");
  fake.silent = [] { return false; };
  fake.end_all("FAILED");
  status = read_run(it.store, it.submission().run);
  add_jobs(status, it.store, slurm);
  BOOST_TEST(status.state == "incomplete");
  BOOST_TEST(status.tasks.front().reason.find("has ended (FAILED)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_job_that_failed_before_its_first_word_is_lost_and_what_follows_a_failure_stays_blocked) {
  Submitted900 it;
  FakeSlurm fake;
  it.send_with(fake);
  const auto folder = it.store.runs_folder() / it.submission().run;
  const SubmittedArray& array = it.submission().arrays.front();
  const auto& [index, tasks] = *array.elements.begin();
  const std::string id = it.submission().tasks[tasks.front()].id;
  const auto log = folder / "jobs" / (array.token + "_" + std::to_string(index) + ".log");
  support::append_file(log, "");
  fake.accounts =
      support::cat("101_", index, "|FAILED|9:0|", array.name(), "\n101_", index, ".batch|OUT_OF_MEMORY|0:125|batch\n");
  for (FakeSlurm::Job& job : fake.jobs) {
    for (const std::int64_t i : job.indices) job.states[i] = job.id == "101" ? "FAILED" : "CANCELLED";
  }
  Slurm slurm(fake.call());
  const auto look = [&] {
    RunStatus status = read_run(it.store, it.submission().run);
    add_jobs(status, it.store, slurm);
    return status;
  };
  const auto task_of = [](const RunStatus& status, const std::string& wanted) {
    for (const TaskStatus& task : status.tasks) {
      if (task.id == wanted) return task;
    }
    throw std::runtime_error("no task " + wanted);
  };
  const TaskStatus lost = task_of(look(), id);
  BOOST_TEST(lost.phase == "lost");
  BOOST_TEST(lost.reason.find(" has ended (OUT_OF_MEMORY); `pe-pipeline submit` continues, and asks for more memory") !=
                 std::string::npos,
             lost.reason);
  BOOST_TEST(lost.log == log.string());
  BOOST_TEST(job_log(it.store, it.submission(), it.submission().tasks[tasks.front()].plan_key) == log);
  // Its readers are blocked once it has failed for good, also when Slurm has forgotten their jobs, and when the run is
  // over.
  Journal(folder).append({{"event", "start"}, {"task", id}, {"attempt", 1}});
  Journal(folder).append({{"event", "fail"}, {"task", id}, {"reason", "exit code 9"}});
  fake.accounts.clear();
  for (int round = 0; round < 3; ++round) {
    if (round == 1) fake.jobs.clear();
    if (round == 2) {
      Submission old = it.submission();
      old.created -= 601;
      end_abandoned(it.store, {old}, {}, slurm);
    }
    const RunStatus status = look();
    std::size_t blocked = 0;
    for (const TaskStatus& task : status.tasks) {
      const bool reads = std::find(task.needs.begin(), task.needs.end(), id) != task.needs.end();
      if (!reads || task.phase != "blocked") continue;
      ++blocked;
      BOOST_TEST(task.reason == "needs " + id + ", which failed");
    }
    BOOST_TEST(blocked > 0u, "round " << round);
    if (round == 2) BOOST_TEST(status.state == "failed");
  }
}

BOOST_AUTO_TEST_CASE(memory_that_slurm_alone_knows_to_be_too_little_is_asked_for_again) {
  Submitted900 it;
  FakeSlurm fake;
  it.send_with(fake);
  const SubmittedArray& array = it.submission().arrays.front();
  const auto& [index, tasks] = *array.elements.begin();
  const std::string& key = it.submission().tasks[tasks.front()].plan_key;
  const auto attempt = it.store.new_attempt(key);
  support::write_file_atomically(attempt / "task.json", "{}\n", false);
  Slurm slurm(fake.call());
  fake.end_all("FAILED");
  note_lost_to_memory(it.store, {it.submission()}, *slurm.own_jobs(), slurm);  // no accounts
  BOOST_TEST(last_oom_memory_bytes(it.store, key) == 0);
  fake.accounts =
      support::cat("101_", index, "|FAILED|9:0|", array.name(), "\n101_", index, ".batch|OUT_OF_MEMORY|0:125|batch\n");
  Submission shared = it.submission();  // a job of four tasks side by side has the memory of all
  for (std::string& option : shared.arrays.front().options) {
    if (option.rfind("--mem=", 0) == 0) option = support::cat("--mem=", 4 * std::stoll(option.substr(6)), "M");
  }
  note_lost_to_memory(it.store, {shared}, *slurm.own_jobs(), slurm);
  std::int64_t asked = 0;
  for (const std::string& option : array.options) {
    if (option.rfind("--mem=", 0) == 0) asked = std::stoll(option.substr(6)) << 20;
  }
  BOOST_TEST(asked > 0);
  BOOST_TEST(last_oom_memory_bytes(it.store, key) == asked);
  // An attempt that ended otherwise is not touched.
  const auto second = it.store.new_attempt(key);
  support::write_file_atomically(second / "exit.json",
                                 Json{{"run", it.submission().run}, {"class", "permanent"}}.dump(), false);
  note_lost_to_memory(it.store, {it.submission()}, *slurm.own_jobs(), slurm);
  BOOST_TEST(last_oom_memory_bytes(it.store, key) == 0);
}

BOOST_AUTO_TEST_CASE(memory_says_nothing_of_an_attempt_of_another_submission_or_of_another_user) {
  Submitted900 it;
  FakeSlurm fake;
  it.send_with(fake);
  const auto& [index, tasks] = *it.submission().arrays.front().elements.begin();
  const std::string& key = it.submission().tasks[tasks.front()].plan_key;
  fake.end_all("OUT_OF_MEMORY");
  Slurm slurm(fake.call());
  // A later submission runs the task now.
  const auto attempt = it.store.new_attempt(key);
  write_owner(attempt, "another", 1, 1);
  support::write_file_atomically(attempt / "task.json", "{}\n", false);
  note_lost_to_memory(it.store, {it.submission()}, *slurm.own_jobs(), slurm);
  BOOST_TEST(!std::filesystem::exists(attempt / "exit.json"));
  const auto own = it.store.new_attempt(key);
  write_owner(own, it.submission().run, 1, 1);
  support::write_file_atomically(own / "task.json", "{}\n", false);
  note_lost_to_memory(it.store, {it.submission()}, *slurm.own_jobs(), slurm);
  BOOST_TEST(last_oom_memory_bytes(it.store, key) > 0);
  const std::filesystem::path work = it.store.work_folder(key);
  ::chmod(work.c_str(), 0);
  const auto look = [&] {
    note_lost_to_memory(it.store, {it.submission()}, *slurm.own_jobs(), slurm);
    return last_oom_memory_bytes(it.store, key) == 0 ? 7 : 1;
  };
  BOOST_TEST(as_plain_user(it.store.root().parent_path(), look, {work}) == 7);
  ::chmod(work.c_str(), 0755);
}

BOOST_AUTO_TEST_CASE(a_submission_that_lost_its_graph_stops_no_other) {
  Submitted900 it;
  FakeSlurm fake;
  it.send_with(fake);
  fake.end_all("OUT_OF_MEMORY");
  Slurm slurm(fake.call());
  std::filesystem::remove(it.store.runs_folder() / it.submission().run / "graph.json");
  BOOST_CHECK_THROW(read_graph(it.store, it.submission().run), support::ArtifactError);
  Submission old = it.submission();
  old.created -= 601;
  note_lost_to_memory(it.store, {old}, *slurm.own_jobs(), slurm);
  end_abandoned(it.store, {old}, {}, slurm);
}

BOOST_AUTO_TEST_CASE(a_cancelled_submission_is_cancelled) {
  Submitted900 it;
  const std::string& run = it.submission().run;
  const Json summary{{"schema", "pe-run-summary/1"},
                     {"run", run},
                     {"exit_code", kRunIncomplete},
                     {"cancelled", true},
                     {"ended", support::unix_time()}};
  support::write_file_atomically(it.store.runs_folder() / run / "summary.json", summary.dump(), false);
  const RunStatus status = read_run(it.store, run);
  BOOST_TEST(status.state == "cancelled");
  for (const TaskStatus& task : status.tasks) BOOST_TEST(task.phase == "cancelled");
}

BOOST_AUTO_TEST_CASE(a_job_that_no_answer_names_runs_as_long_as_it_gives_signs_of_itself) {
  Submitted900 it;
  FakeSlurm fake;
  it.send_with(fake);
  const SubmittedArray& array = it.submission().arrays.front();
  const auto& [index, tasks] = *array.elements.begin();
  const std::string id = it.submission().tasks[tasks.front()].id;
  const auto folder = it.store.runs_folder() / it.submission().run;
  Journal(folder).append({{"event", "start"}, {"task", id}, {"attempt", 1}});
  support::make_folders(folder / "state");
  const auto told = [&, index = index](double silent_s, const std::string& account) {
    support::write_file_atomically(folder / "state" / (array.token + "_" + std::to_string(index) + ".json"),
                                   Json{{"time", support::unix_time() - silent_s},
                                        {"running", Json::array({{{"task", id}, {"progress", {{"step", 7}}}}})}}
                                       .dump(),
                                   false);
    JobStates jobs;
    jobs.rows.emplace();  // squeue answers, and names nothing
    if (!account.empty()) {
      EndedJob job;
      job.index = index;
      job.state = account;
      job.name = array.name();
      jobs.ended = {job};
    }
    RunStatus status = read_run(it.store, it.submission().run);
    add_jobs(status, it.store, it.submission(), jobs);
    for (const TaskStatus& task : status.tasks) {
      if (task.id == id) return task;
    }
    throw std::runtime_error("no task " + id);
  };
  for (const char* account : {"", "RUNNING", "REQUEUED"}) {
    const TaskStatus task = told(5, account);
    BOOST_TEST(task.phase == "running");
    BOOST_TEST(task.reason.find("Slurm does not name its job; it gave a sign ") == 0u, task.reason);
    BOOST_TEST(task.progress.value("step", 0) == 7);
  }
  BOOST_TEST(told(5, "FAILED").phase == "lost");
  BOOST_TEST(told(5, "FAILED").reason.find("has ended (FAILED)") != std::string::npos);
  BOOST_TEST(told(300, "").phase == "lost");
}

BOOST_AUTO_TEST_CASE(a_job_is_narrowed_to_what_slurm_gave_it) {
  const auto environment = [](std::map<std::string, std::string> values) -> Environment {
    return [values = std::move(values)](const char* name) -> std::optional<std::string> {
      const auto found = values.find(name);
      return found == values.end() ? std::nullopt : std::optional(found->second);
    };
  };
  Capacity machine;
  machine.cpus = 64;
  machine.mem_bytes = 1LL << 40;
  machine.gpus = {"0", "1"};
  BOOST_TEST(allocated(machine, environment({})).cpus == 64);
  Capacity here = allocated(
      machine, environment({{"SLURM_JOB_ID", "5"}, {"SLURM_CPUS_ON_NODE", "8"}, {"SLURM_MEM_PER_NODE", "2048"}}));
  BOOST_TEST(here.cpus == 8);
  BOOST_TEST(here.mem_bytes == 2LL << 30);
  here = allocated(machine,
                   environment({{"SLURM_JOB_ID", "5"}, {"SLURM_CPUS_ON_NODE", "4"}, {"SLURM_MEM_PER_CPU", "100"}}));
  BOOST_TEST(here.mem_bytes == 400LL << 20);
  here = allocated(machine,
                   environment({{"SLURM_JOB_ID", "5"}, {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_CPUS_ON_NODE", "8"}}));
  BOOST_TEST(here.cpus == 16);
  BOOST_TEST(here.gpus.size() == 4u);
  const auto job = own_job(environment({{"SLURM_JOB_ID", "9"},
                                        {"SLURM_ARRAY_JOB_ID", "7"},
                                        {"SLURM_ARRAY_TASK_ID", "2"},
                                        {"SLURM_RESTART_COUNT", "3"}}));
  BOOST_TEST_REQUIRE(job.has_value());
  BOOST_TEST(job->array_job == "7");
  BOOST_TEST(job->index == 2);
  BOOST_TEST(job->id() == "7_2");
  BOOST_TEST(job->restarts == 3);
  BOOST_TEST(!own_job(environment({})).has_value());
}

BOOST_AUTO_TEST_CASE(after_a_stop_only_a_job_that_slurm_calls_running_is_queued_again) {
  using Kind = StopDecision::Kind;
  StopFacts facts;
  const auto decided = [&] { return decide_after_stop(facts).kind; };
  BOOST_TEST((decided() == Kind::kUnknown));  // Slurm does not answer
  facts.row = JobRow();
  facts.row->run_s = 10;
  facts.row->limit_s = 3600;
  for (const char* state : {"COMPLETING", "CANCELLED", "PENDING", "TIMEOUT", "REQUEUED"}) {
    facts.row->state = state;
    BOOST_TEST((decided() == Kind::kEnd), state);
  }
  facts.row->state = "RUNNING";
  BOOST_TEST((decided() == Kind::kRequeue));
  facts.cancelled = true;
  BOOST_TEST((decided() == Kind::kEnd));
  facts.cancelled = false;
  // Nothing saved, and its time is over: it would be so every time.
  facts.row->run_s = 3500;
  BOOST_TEST((decided() == Kind::kGiveUp));
  // A short job that is preempted early has time left.
  facts.row->limit_s = 180;
  facts.row->run_s = 20;
  BOOST_TEST((decided() == Kind::kRequeue));
  facts.row->run_s = 120;
  BOOST_TEST((decided() == Kind::kGiveUp));
  facts.keeps_steps = true;
  facts.still = 1;
  BOOST_TEST((decided() == Kind::kRequeue));
  facts.still = 3;
  BOOST_TEST((decided() == Kind::kGiveUp));
  facts.moved = true;
  BOOST_TEST((decided() == Kind::kRequeue));
  // A long training may need any number of jobs, as long as each of them saves a step.
  facts.restarts = 50;
  BOOST_TEST((decided() == Kind::kRequeue));
  facts.still = 1;
  facts.moved = false;
  BOOST_TEST((decided() == Kind::kGiveUp));
}

BOOST_AUTO_TEST_CASE(the_owner_of_a_lease_is_gone_when_slurm_says_so_and_not_when_it_says_nothing) {
  LeaseOwner owner;
  owner.slurm_job = "7";
  JobRow row;
  row.job = "7";
  row.state = "RUNNING";
  BOOST_TEST(!job_is_over(owner, "here", {row}));
  row.state = "PENDING";  // queued again: nobody works
  BOOST_TEST(job_is_over(owner, "here", {row}));
  row.state = "FAILED";
  BOOST_TEST(job_is_over(owner, "here", {row}));
  // A job of the same number on another cluster, and one whose number this cluster gave away again.
  owner.slurm_cluster = "elsewhere";
  BOOST_TEST(!job_is_over(owner, "here", {row}));
  BOOST_TEST(!job_is_over(owner, "", {row}));
  owner.slurm_cluster = "here";
  BOOST_TEST(job_is_over(owner, "here", {row}));
  owner.slurm_name = "trunk.0123456789ab";
  BOOST_TEST(!job_is_over(owner, "here", {row}));
  row.name = owner.slurm_name;
  BOOST_TEST(job_is_over(owner, "here", {row}));
  row.job = "8";
  BOOST_TEST(!job_is_over(owner, "here", {row}));
  BOOST_TEST(!job_is_over(owner, "here", {}));
}

BOOST_AUTO_TEST_CASE(an_answer_from_before_a_lease_was_seen_says_nothing_of_its_owner) {
  std::size_t asked = 0;
  Slurm slurm([&](const std::vector<std::string>& words, const std::string&, double) {
    support::TimedCapture answer;
    if (words[0] == "squeue") {
      ++asked;
      answer.out = "7|7|0|PENDING|None||0:00|1:00:00|n\n8|8|0|RUNNING|None||0:00|1:00:00|n\n";
    } else {
      answer.status.code = 1;
    }
    return answer;
  });
  const auto ended = job_ended_by(slurm);
  LeaseOwner running, later;
  running.slurm_job = "8";
  later.slurm_job = "7";  // it waited when squeue was asked, and has begun since
  BOOST_TEST(!ended(running));
  BOOST_TEST(!ended(later));
  BOOST_TEST(asked == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
