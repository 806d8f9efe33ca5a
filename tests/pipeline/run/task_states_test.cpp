#include "pipeline/run/task_states.h"

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

#include "pipeline/run/run_fixture.h"
#include "support/hash.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using Names = std::vector<std::string>;

namespace {

/// Graphs without a store: all facts come from the plan and from the test.
struct States : test::SmallRun {
  std::unique_ptr<TaskStates> states;
  Plan made;

  void begin(std::vector<bool> only = {}) {
    made = plan();
    states = std::make_unique<TaskStates>(graph, made, std::vector<double>(graph.tasks.size(), 1.0), std::move(only));
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      if (only.empty() || only[i]) states->want(i);
    }
  }
  /// All news: "b" for inputs that are settled, "b!" for a block.
  Names news() {
    Names names;
    while (const auto next = states->next_event()) {
      names.push_back(graph.tasks[next->task].id + (next->kind == TaskStates::TaskEvent::Kind::kBlocked ? "!" : ""));
      if (next->kind == TaskStates::TaskEvent::Kind::kInputsSettled) states->set_phase(next->task, TaskPhase::kReady);
    }
    return names;
  }
  static PackedResult result(const std::string& of, ResultStatus status = ResultStatus::kDone) {
    Result result;
    result.status = status;
    const std::string content = support::sha256_hex(of);
    if (status == ResultStatus::kDone)
      result.outputs.push_back({"out", "metrics", content, content, 1, false, false, {}});
    return PackedResult(result);
  }
  void finish(std::size_t i) {
    states->add_result(i, TaskStates::kWhole, result("of " + graph.tasks[i].id));
    states->set_phase(i, TaskPhase::kDone);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(task_states)

BOOST_FIXTURE_TEST_CASE(a_task_is_looked_at_once_when_the_last_of_its_inputs_is_there, States) {
  std::vector<std::size_t> parts;
  for (int i = 0; i < 50; ++i) parts.push_back(add("part" + std::to_string(i)));
  const auto report = add("report", parts);
  begin();
  BOOST_TEST(news().size() == 50u);
  for (std::size_t k = 0; k + 1 < parts.size(); ++k) {
    finish(parts[k]);
    BOOST_TEST(news().empty());
  }
  finish(parts.back());
  BOOST_TEST((news() == Names{"report"}));
  BOOST_TEST(states->inputs_of(report).digests.size() == 50u);
  // A result that is reported twice changes nothing.
  finish(parts.back());
  BOOST_TEST(news().empty());
}

BOOST_FIXTURE_TEST_CASE(what_is_damaged_opens_the_inputs_of_all_that_have_not_started, States) {
  const auto a = add("a"), b = add("b", {a}), c = add("c", {a}), d = add("d", {a});
  begin();
  news();
  finish(a);
  BOOST_TEST((news() == Names{"b", "c", "d"}));
  states->set_phase(c, TaskPhase::kVerifying);
  states->set_phase(d, TaskPhase::kRunning);
  states->drop_result(a, TaskStates::kWhole);
  BOOST_TEST((states->phase(b) == TaskPhase::kWaiting));
  BOOST_TEST((states->phase(c) == TaskPhase::kWaiting));
  BOOST_TEST((states->phase(d) == TaskPhase::kRunning));
  // A running one continues, but does not start again before its input exists again.
  states->make_ready_again(d);
  BOOST_TEST((states->phase(d) == TaskPhase::kWaiting));
  states->look_again(a);
  BOOST_TEST((news() == Names{"a"}));
  finish(a);
  BOOST_TEST((news() == Names{"b", "c", "d"}));
}

BOOST_FIXTURE_TEST_CASE(a_block_reaches_every_descendant_and_names_its_root, States) {
  const auto a = add("a");
  std::size_t last = a;
  for (int i = 0; i < 20000; ++i) last = add("t" + std::to_string(i), {last});
  begin();
  news();
  states->fail(a, "exit code 70");
  BOOST_TEST(news().size() == 20000u);
  BOOST_TEST((states->phase(last) == TaskPhase::kBlocked));
  BOOST_TEST(*states->at(last).reason == "needs a, which failed");
  BOOST_TEST(*states->at(last).blocked_by == "a");
  BOOST_TEST(states->counts().at(TaskPhase::kBlocked) == 20000u);
}

BOOST_FIXTURE_TEST_CASE(a_partial_gather_tells_in_its_key_what_is_missing_and_why, States) {
  const auto a = add("a"), b = add("b"), report = add("report", {a, b}), strict = add("strict", {b}, "init");
  task(report).allow_partial = task(strict).allow_partial = true;
  begin();
  news();
  finish(a);
  states->fail(b, "exit code 70");
  // A single input is needed whatever a gather may do without.
  BOOST_TEST((news() == Names{"report", "strict!"}));
  const TaskInputs failed = states->inputs_of(report);
  BOOST_TEST(failed.missing.at(1) == "failed");
  BOOST_TEST(!failed.all_inputs_missing());
  const InputRecord told = input_record(graph, task(report), failed, 1);
  BOOST_TEST(told.missing == "failed");
  BOOST_TEST(told.producer == "b");
  BOOST_TEST(told.labels.at("stage") == task(b).label);
  BOOST_TEST(told.digest.empty());
  BOOST_TEST(input_record(graph, task(report), failed, 0).digest == failed.digests.at(0).digest);
  BOOST_REQUIRE(failed.digests.size() == 2u);
  const std::string key = KeyMaker().task_key(graph, task(report), failed.digests);
  states->set_phase(b, TaskPhase::kBlocked);
  BOOST_TEST(KeyMaker().task_key(graph, task(report), states->inputs_of(report).digests) != key);
  BOOST_TEST(KeyMaker().task_key(graph, task(report), {failed.digests.front()}) != key);
}

BOOST_FIXTURE_TEST_CASE(tasks_of_one_plan_key_wait_for_each_other, States) {
  const auto a = add("a"), b = add("a");
  task(b).id = "twin";
  begin();
  BOOST_TEST((news() == Names{"a"}));
  states->set_phase(a, TaskPhase::kRunning);
  BOOST_TEST(news().empty());
  finish(a);
  BOOST_TEST((news() == Names{"twin"}));
}

BOOST_FIXTURE_TEST_CASE(what_another_process_makes_is_read_or_waited_for_by_nobody, States) {
  const auto a = add("a"), b = add("b", {a}), c = add("c");
  begin({false, true, true});
  BOOST_TEST((news() == Names{"b!", "c"}));  // what becomes of a its own process tells
  BOOST_TEST(states->at(b).reason->find("another process") != std::string::npos);
  BOOST_TEST((states->phase(c) == TaskPhase::kReady));
}

BOOST_FIXTURE_TEST_CASE(snapshots_are_needed_while_somebody_waits_for_them, States) {
  const auto trunk = add("trunk"), early = add("early");
  task(trunk).snapshots = {{"s10", 10}, {"s20", 20}};
  task(early).inputs.push_back({"init", trunk, "out", "s10"});
  begin();
  news();
  for (auto& snapshot : made.tasks[trunk].snapshots) snapshot.needed = false;
  BOOST_TEST((states->needed_snapshots(trunk) == std::vector<std::size_t>{0}));
  states->add_result(trunk, 1, result("late"));
  BOOST_TEST(news().empty());
  states->add_result(trunk, 0, result("early"));
  BOOST_TEST((news() == Names{"early"}));
  BOOST_TEST(states->inputs_of(early).digests.at(0).step == 10);
  BOOST_TEST(states->needed_snapshots(trunk).empty());
}

BOOST_AUTO_TEST_SUITE_END()
