// Plans: present results, tasks to run, needed results, early cutoff, snapshots.
#include "pipeline/plan/plan.h"

#include <boost/test/unit_test.hpp>

#include "pipeline/file/selection.h"
#include "pipeline/grid_fixture.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::FakeStore;
using pe::test::few;
using pe::test::GridFolder;
using pe::test::kGrid;
using pe::test::replaced;

namespace {

std::string counts(const Plan& plan) {
  std::string text;
  for (TaskState state : {TaskState::kReuse, TaskState::kLikelyReuse, TaskState::kRun, TaskState::kInputMissing,
                          TaskState::kBlocked, TaskState::kNotNeeded}) {
    if (plan.count(state)) text += std::string(state_name(state)) + " " + std::to_string(plan.count(state)) + " ";
  }
  return text;
}

PlanOptions selecting(const Graph& graph, const std::vector<std::string>& selectors, bool force = false) {
  return {select(graph, selectors), force};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(plan)

BOOST_AUTO_TEST_CASE(an_empty_store_means_everything_runs) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid, few());
  const Plan plan = make_plan(graph, FakeStore());
  BOOST_TEST(counts(plan) == "run 37 ");
  BOOST_TEST(plan.tasks[0].reason == "no result yet");
  BOOST_TEST(plan.tasks[1].reason == "follows fetch");
  BOOST_TEST(!plan.nothing_to_do());
}

BOOST_AUTO_TEST_CASE(after_a_run_there_is_nothing_to_do) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid, few());
  FakeStore store;
  BOOST_TEST(store.run(graph).size() == 37u);
  const Plan plan = make_plan(graph, store);
  BOOST_TEST(counts(plan) == "reuse 37 ");
  BOOST_TEST(plan.nothing_to_do());
  BOOST_TEST(store.run(graph).empty());
}

BOOST_AUTO_TEST_CASE(a_changed_value_runs_its_stage_and_what_follows) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, few()));
  const Graph graph = folder.keyed(kGrid, few({"decay.decay.share=0.1"}));
  const Plan plan = make_plan(graph, store);
  BOOST_TEST(counts(plan) == "reuse 12 run 25 ");  // 6 decays, their 18 evaluations, the report
  BOOST_TEST(plan.tasks[test::index_of(graph, "report")].reason == "follows evaluate, decay");
}

BOOST_AUTO_TEST_CASE(equal_content_cuts_off_early) {
  const GridFolder folder;
  FakeStore store;
  store.fixed_content["tokenize"] = "the same shards";
  store.run(folder.keyed(kGrid, few()));
  // Another setting, other keys, and the same bytes out of it.
  const Graph graph = folder.keyed(kGrid, few({"tokenize.tokenizer=other"}));
  const Plan before = make_plan(graph, store);
  BOOST_TEST((before.tasks[1].state == TaskState::kRun));
  const auto done = store.run(graph);
  BOOST_TEST(done == std::vector<std::string>{"tokenize"});
}

BOOST_AUTO_TEST_CASE(a_forgotten_producer_makes_readers_likely) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid, few());
  FakeStore store;
  store.run(graph);
  store.results.erase({make_plan(graph, store).tasks[1].task_key, -1});
  const Plan plan = make_plan(graph, store);
  BOOST_TEST(counts(plan) == "reuse 1 likely-reuse 35 run 1 ");
  BOOST_TEST(store.run(graph) == std::vector<std::string>{"tokenize"});
}

BOOST_AUTO_TEST_CASE(an_object_that_is_gone_is_made_again_where_it_is_needed) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid, few());
  FakeStore store;
  store.run(graph);
  const Plan whole = make_plan(graph, store);
  store.objects[whole.tasks[1].result->outputs[0].object] = false;
  const Plan plan = make_plan(graph, store);
  BOOST_TEST(counts(plan) == "reuse 36 run 1 ");
  BOOST_TEST(plan.tasks[1].reason == "its result is recorded, but an object is gone from the store");
  // It is not needed when only the report is wanted.
  BOOST_TEST(counts(make_plan(graph, store, selecting(graph, {"report"}))) == "reuse 1 not-needed 36 ");
}

BOOST_AUTO_TEST_CASE(a_selection_runs_what_it_needs_and_no_more) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid, few());
  FakeStore store;
  const auto done = store.run(graph, selecting(graph, {"decay[encoding=rope,branch=b25]"}));
  BOOST_TEST(done.size() == 4u);
  // The trunk went only as far as that decay asks.
  const Plan plan = make_plan(graph, store, selecting(graph, {"trunk[encoding=rope]"}));
  const PlannedTask& trunk = plan.tasks[test::index_of(graph, "trunk[encoding=rope,size=tiny,seed=42]")];
  BOOST_REQUIRE(trunk.snapshots.size() == 5u);
  BOOST_TEST(trunk.snapshots[0].present);
  BOOST_TEST(!trunk.snapshots[1].present);
  BOOST_TEST((trunk.state == TaskState::kRun));
  BOOST_TEST(last_needed_step(trunk) == trunk.snapshots.back().step);
  const Plan one = make_plan(graph, store, selecting(graph, {"decay[encoding=rope,branch=b50]"}));
  const PlannedTask& further = one.tasks[test::index_of(graph, "trunk[encoding=rope,size=tiny,seed=42]")];
  BOOST_TEST(last_needed_step(further) == further.snapshots[1].step);
}

BOOST_AUTO_TEST_CASE(a_plan_from_the_store_makes_only_what_is_selected) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid, few());
  FakeStore store;
  PlanOptions options = selecting(graph, {"report"});
  options.make_inputs = false;
  const auto report_of = [&](const Plan& plan) { return plan.tasks[test::index_of(graph, "report")]; };
  const Plan empty = make_plan(graph, store, options);
  BOOST_TEST(counts(empty) == "blocked 1 not-needed 36 ");
  BOOST_TEST(report_of(empty).reason == "none of its inputs is there or can be made");

  store.run(graph, selecting(graph, {"evaluate[encoding=rope,branch=b25]"}));
  const Plan some = make_plan(graph, store, options);
  BOOST_TEST(some.count(TaskState::kRun) == 1u);
  BOOST_TEST((report_of(some).state == TaskState::kRun));
  BOOST_TEST(some.count(TaskState::kReuse) == 4u);  // a decay and its three suites
  BOOST_TEST(some.count_left_out() == 30u);         // the others that the report gathers
  BOOST_TEST(!some.nothing_to_do());

  // A task that cannot do without an input is blocked, and one whose snapshot is there runs.
  options = selecting(graph, {"decay[encoding=rope]"});
  options.make_inputs = false;
  const Plan decays = make_plan(graph, store, options);
  BOOST_TEST(counts(decays) == "reuse 2 blocked 2 not-needed 33 ");
  BOOST_TEST(decays.tasks[test::index_of(graph, "decay[encoding=rope,size=tiny,seed=42,branch=b50]")].reason ==
             "needs trunk[encoding=rope,size=tiny,seed=42], which has no result; --from-store makes none");
  const Graph other = folder.keyed(kGrid, few({"decay.decay.share=0.1"}));
  BOOST_TEST(make_plan(other, store, options).count(TaskState::kRun) == 1u);
}

BOOST_AUTO_TEST_CASE(a_longer_horizon_extends_the_same_trajectory) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, few()));
  // Twice the tokens: the point at 0.4 of the old horizon is that at 0.2 of the new one.
  const Graph graph = folder.keyed(kGrid, few({"vars.tokens.tiny=4.8e9"}));
  const Plan plan = make_plan(graph, store);
  const PlannedTask& trunk = plan.tasks[test::index_of(graph, "trunk[encoding=rope,size=tiny,seed=42]")];
  std::string text;
  for (const PlannedSnapshot& snapshot : trunk.snapshots) {
    text += snapshot.label + "=" + std::to_string(snapshot.step) + (snapshot.present ? "+ " : " ");
  }
  BOOST_TEST(text == "b25=1831+ b50=3662+ d10=5723 b100=7325 d15=8584 ");
}

BOOST_AUTO_TEST_CASE(force_runs_what_is_selected_and_never_its_ancestors) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid, few());
  FakeStore store;
  store.run(graph);
  const Plan plan = make_plan(graph, store, selecting(graph, {"evaluate[suite=needle]"}, true));
  BOOST_TEST(plan.count(TaskState::kRun) == 8u);
  BOOST_TEST(plan.count(TaskState::kReuse) == 9u);  // the shards and the eight models that they read
  BOOST_TEST(plan.count(TaskState::kNotNeeded) == 20u);
  BOOST_TEST(plan.tasks.back().reason == "neither selected nor needed");
}

BOOST_AUTO_TEST_CASE(a_missing_input_blocks_what_follows_and_says_so) {
  const GridFolder folder;
  const Graph graph = folder.keyed(replaced(kGrid, "data/fineweb-edu", "data/absent"), few());
  const Plan plan = make_plan(graph, FakeStore());
  BOOST_TEST(counts(plan) == "input-missing 1 blocked 36 ");
  const std::string reason = "input missing: path names " + folder.path("data/absent").string();
  BOOST_TEST(plan.tasks[0].reason.starts_with(reason + " ("), plan.tasks[0].reason);
  BOOST_TEST(plan.tasks[0].reason.find(".yml:") != std::string::npos, plan.tasks[0].reason);
  BOOST_TEST(plan.tasks[1].reason == "waits for fetch, whose input is missing");
}

BOOST_AUTO_TEST_CASE(two_tasks_of_one_recipe_know_each_other) {
  const std::string text =
      "schema: pe-pipeline/1\nname: a\naxes: {seed: [1, 2]}\nstages:\n  fetch: {run: pe-fetch, over: [seed]}\n";
  const Graph graph = GridFolder().keyed(text);
  const Plan plan = make_plan(graph, FakeStore());
  BOOST_TEST(!plan.tasks[0].same_as.has_value());
  BOOST_TEST(plan.tasks[1].same_as.value() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
