// Remains of a run: its folder, the time in its records, names for people; and processes that join one run.
#include "pipeline/run/run_folder.h"

#include <sys/stat.h>
#include <boost/test/unit_test.hpp>

#include <fstream>
#include <set>

#include "pipeline/run/run_fixture.h"
#include "pipeline/run/run_status.h"
#include "support/as_plain_user.h"
#include "support/error.h"
#include "support/fault_point.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::FakeAttempt;
using pe::test::SmallRun;
using pe::test::write_all_outputs;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;

namespace {

struct Chain : SmallRun {
  std::size_t a = add("a"), b = add("b", {a});

  double wall_s(std::size_t i, std::int64_t step = -1) const {
    return store->read({*store->hint(graph.tasks[i].plan_key), step})->occasion.at("wall_s").get<double>();
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(run_folder)

BOOST_FIXTURE_TEST_CASE(no_two_runs_share_a_folder, Chain) {
  const Plan planned = plan();
  std::set<std::string> ids;
  // Many in each millisecond, so that chance alone would let some meet.
  for (int i = 0; i < 500; ++i) ids.insert(RunFolder(*store, graph, planned, options).run_id());
  BOOST_TEST(ids.size() == 500u);
}

BOOST_FIXTURE_TEST_CASE(the_frozen_plan_holds_no_configs, Chain) {
  const RunSummary summary = run();
  const Json frozen = Json::parse(support::read_file(store->runs_folder() / summary.run_id / "plan.json"));
  BOOST_TEST(frozen.at("tasks").size() == 2u);
  BOOST_TEST(frozen.at("tasks").at(1).at("needs").at(0) == "a");
  for (const Json& task : frozen.at("tasks")) BOOST_TEST(!task.contains("config"));
}

BOOST_FIXTURE_TEST_CASE(a_frozen_plan_is_read_task_by_task, Chain) {
  const fs::path folder = store->runs_folder() / run().run_id;
  Json frozen = Json::parse(support::read_file(folder / "plan.json"));
  // Objects and a member of that name elsewhere are no tasks.
  frozen["other"] = {{{"id", "no"}}, {{"tasks", Json::array({Json::object()})}}};
  support::write_file_atomically(folder / "plan.json", frozen.dump(), false);
  Json tasks = Json::array();
  const Json rest = read_plan(folder, [&](const Json& task) { tasks.push_back(task); });
  BOOST_TEST((tasks == frozen["tasks"]));
  frozen["tasks"] = Json::array();
  BOOST_TEST((rest == frozen), rest.dump());
  for (const char* text : {"", "{", "[]", "{\"schema\":\"pe-run/1\"}", "{\"schema\":\"pe-run/2\",\"tasks\":[]}"}) {
    support::write_file_atomically(folder / "plan.json", text, false);
    BOOST_CHECK_THROW(read_plan(folder, [](const Json&) {}), support::ArtifactError);
  }
}

BOOST_FIXTURE_TEST_CASE(time_adds_up_over_the_attempts_that_made_a_result, Chain) {
  int attempts = 0;
  behaviour["a"] = [&](FakeAttempt& attempt) {
    attempt.seconds = 100;
    if (++attempts < 3) {
      std::ofstream(attempt.folder / "state") << attempts;
      attempt.messages.push_back({{"event", "checkpoint"}, {"step", attempts}});
      attempt.code = 75;
    } else {
      write_all_outputs(attempt);
    }
  };
  run();
  BOOST_TEST(attempts == 3);
  BOOST_TEST(wall_s(a) == 300.0);
  BOOST_TEST(wall_s(b) == 1.0);
  // The cost of a result does not include work that was thrown away.
  task(a).config.edit()["salt"] = "new";
  attempts = 0;
  behaviour["a"] = [&](FakeAttempt& attempt) {
    attempt.seconds = 100;
    if (++attempts == 1)
      attempt.code = 1;
    else
      write_all_outputs(attempt);
  };
  run();
  BOOST_TEST(attempts == 2);
  BOOST_TEST(wall_s(a) == 100.0);
}

BOOST_FIXTURE_TEST_CASE(time_adds_up_over_runs_and_along_a_trajectory, Chain) {
  task(a).snapshots = {{"s10", 10}};
  task(b).inputs[0].snapshot = "s10";
  behaviour["a"] = [](FakeAttempt& attempt) {
    attempt.seconds = 60;
    write_all_outputs(attempt);
  };
  run();
  BOOST_TEST(wall_s(a, 10) == 60.0);
  // A longer budget: the work folder is gone, and it continues from the snapshot.
  fs::remove_all(store->root() / "work");
  task(a).snapshots = {{"s10", 10}, {"s20", 20}};
  task(b).inputs[0].snapshot = "s20";
  run();
  BOOST_TEST(wall_s(a, 20) == 120.0);
}

BOOST_FIXTURE_TEST_CASE(names_appear_as_tasks_finish, Chain) {
  task(a).output_names["out"] = "first";
  bool named = false;
  behaviour["b"] = [&](FakeAttempt& attempt) {
    named = fs::exists(fs::path(graph.root) / "out" / "small" / "a" / "first.h5");
    write_all_outputs(attempt);
  };
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST(named);
}

BOOST_FIXTURE_TEST_CASE(a_cache_that_cannot_be_written_fails_no_run, Chain) {
  std::ofstream(folder / "store/memo") << "in the way";
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST(summary.executed == 2u);
  open();
  BOOST_TEST(plan().nothing_to_do());
  BOOST_TEST(run().executed == 0u);
}

BOOST_FIXTURE_TEST_CASE(processes_join_a_run_each_with_its_own_tasks, Chain) {
  // The run is begun elsewhere, with the plan of all.
  options.run_id = RunFolder(*store, graph, plan(), options).run_id();
  const fs::path run_folder = store->runs_folder() / options.run_id;
  const std::string frozen = support::read_file(run_folder / "plan.json");
  options.join = true;
  options.only = {false, true};
  RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunIncomplete);
  BOOST_TEST(runner->started.empty());
  options.only = {true, false};
  summary = run();
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"a"}));
  options.only = {false, true};
  summary = run();
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"b"}));
  BOOST_TEST(summary.run_id == options.run_id);
  BOOST_TEST(support::read_file(run_folder / "plan.json") == frozen);
  for (const char* name : {"progress.json", "summary.json"}) BOOST_TEST(!fs::exists(run_folder / name));
  BOOST_TEST(!fs::exists(fs::path(graph.root) / "out"));
  const RunStatus status = read_run(*store, options.run_id);
  for (const TaskStatus& task : status.tasks) BOOST_TEST(task.phase == "done");
}

BOOST_FIXTURE_TEST_CASE(a_joined_task_that_never_saves_is_not_requeued_for_ever, Chain) {
  options.run_id = RunFolder(*store, graph, plan(), options).run_id();
  options.join = true;
  behaviour["a"] = [](FakeAttempt& attempt) { attempt.stays = true; };
  // The cluster stops the process that runs it, and starts it again. The job limits these (decide_after_stop).
  const auto stopped = [&] { return runner->started.empty() ? 0 : 1; };
  for (int i = 0; i < 2; ++i) {
    const RunSummary summary = run({}, stopped);
    BOOST_TEST(summary.exit_code == kRunIncomplete);
    BOOST_TEST(summary.interrupted == 1u);
  }
  // Unasked, a stage may end once without a step; the attempts of the earlier processes count.
  behaviour["a"] = [](FakeAttempt& attempt) { attempt.code = support::kExitCheckpointed; };
  const RunSummary last = run();
  BOOST_TEST((runner->started == Names{"a"}));
  BOOST_TEST(last.exit_code == kRunFailed);
  BOOST_REQUIRE(last.failures.size() == 1u);
  BOOST_TEST((last.failures[0].outcome == Outcome::kNoProgress));
}

BOOST_FIXTURE_TEST_CASE(failed_attempts_of_earlier_processes_of_a_run_count, Chain) {
  options.run_id = RunFolder(*store, graph, plan(), options).run_id();
  options.join = true;
  behaviour["a"] = [](FakeAttempt& attempt) { attempt.code = 1; };
  graph.tasks[0].retry.edit().max = 0;
  run();
  graph.tasks[0].retry.edit().max = 1;
  const RunSummary last = run();
  BOOST_TEST((runner->started == Names{"a"}));  // the second and last
  BOOST_TEST(last.exit_code == kRunFailed);
}

BOOST_FIXTURE_TEST_CASE(a_task_is_done_when_its_outputs_are_in_the_store, Chain) {
  const RunFolder folder(*store, graph, plan(), options);
  const fs::path run_folder = store->runs_folder() / folder.run_id();
  Journal journal(run_folder);
  const auto phase = [&] { return read_run(*store, folder.run_id()).find("a")->phase; };
  journal.append({{"event", "start"}, {"task", "a"}, {"attempt", 1}});
  BOOST_TEST(phase() == "running");
  journal.append({{"event", "exit"}, {"task", "a"}, {"attempt", 1}, {"class", "done"}});
  BOOST_TEST(phase() == "running");
  journal.append({{"event", "publish"}, {"task", "a"}, {"attempt", 1}});
  BOOST_TEST(phase() == "done");
}

BOOST_FIXTURE_TEST_CASE(a_run_that_another_user_closed_stops_no_other, Chain) {
  options.run_id.clear();
  const std::string closed = RunFolder(*store, graph, plan(), options).run_id();
  const std::string own = RunFolder(*store, graph, plan(), options).run_id();
  const fs::path path = store->runs_folder() / closed;
  ::chmod(path.c_str(), 0);
  const auto look = [&] {
    const bool left_out = store->runs() == Names{own};
    // Two of one millisecond are in no order.
    const bool included = store->runs(ClosedRuns::kIncluded) == Names{std::min(closed, own), std::max(closed, own)};
    const std::string next = RunFolder(*store, graph, plan(), options).run_id();
    return (left_out ? 1 : 0) + (included ? 2 : 0) + (next != closed && next != own ? 4 : 0);
  };
  BOOST_TEST(test::as_plain_user(folder.path(), look, {path}) == 7);
  ::chmod(path.c_str(), 0755);
}

BOOST_AUTO_TEST_CASE(a_run_is_the_newest_though_a_clock_was_ahead_when_the_one_before_began) {
  const std::string now = new_run_id();
  BOOST_TEST(now.substr(0, 2) == "20");
  BOOST_TEST(new_run_id("20390101-000000-99907").substr(0, 19) == "20390101-000001-000");
  BOOST_TEST(new_run_id("20390101-000000-03707").substr(0, 19) == "20390101-000000-038");
  for (const char* none :
       {"20000101-000000-03707", "notes", "", "20390101-000000", "99991231-235959-99900", "20391301-000000-00000"})
    BOOST_TEST(new_run_id(none).substr(0, 4) == now.substr(0, 4), none);
}

BOOST_AUTO_TEST_SUITE_END()
