// Costs before the run: from what was seen before, laid out on slots; and what sharing trajectories saves.
#include "pipeline/plan/estimate.h"

#include <boost/test/unit_test.hpp>

#include "pipeline/grid_fixture.h"

using namespace pe;             // NOLINT
using namespace pe::pipeline;   // NOLINT
using pe::test::FakeStore;
using pe::test::GridFolder;
using pe::test::kGrid;

namespace {

/// Four independent tasks `a` and one `b` that reads them all; each asks for what is given.
struct Small {
  Graph graph;
  Plan plan;
  FakeStore store;

  explicit Small(Resources demand = {}) {
    auto stage = std::make_shared<StageDescription>();
    stage->name = "work";
    stage->costs = {{"tokens", "n"}};
    for (int i = 0; i < 5; ++i) {
      Task task;
      task.label = i < 4 ? "a" : "b";
      task.id = task.label + "[i=" + std::to_string(i) + "]";
      task.stage = stage;
      task.config = Json{{"n", 100 * (i + 1)}};
      task.resources = demand;
      if (i == 4) {
        for (std::size_t producer = 0; producer < 4; ++producer) {
          Edge edge;
          edge.role = "in";
          edge.producer = producer;
          task.inputs.push_back(std::move(edge));
        }
      }
      task.plan_key = std::to_string(i);
      graph.tasks.push_back(std::move(task));
    }
    plan.tasks.resize(5);
    for (PlannedTask& task : plan.tasks) task.state = TaskState::kRun;
  }

  /// As if a task of `n` tokens had taken so long.
  void past(const std::string& id, int n, double wall_s, double expected_s = 0) {
    PastTask task = make_past_task({"k" + std::to_string(store.past["work"].size()), -1}, "work", id, "1",
                                   {{"config", {{"n", n}}}});
    task.wall_s = wall_s;
    task.expected_s = expected_s;
    task.bytes = 1000;
    store.past["work"].push_back(task);
  }
};

Capacity machine(std::int64_t cpus, int gpus = 0) {
  Capacity capacity;
  capacity.cpus = cpus;
  capacity.mem_bytes = 64LL << 30;
  for (int i = 0; i < gpus; ++i) capacity.gpus.push_back(std::to_string(i));
  return capacity;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(estimate)

BOOST_AUTO_TEST_CASE(without_history_nothing_is_claimed) {
  Small small;
  const Estimate cost = pipeline::estimate(small.graph, small.plan, small.store, machine(2));
  BOOST_TEST(cost.known == 0u);
  BOOST_TEST(cost.unknown == 5u);
  BOOST_TEST(cost.wall_s == 0.0);
  BOOST_TEST(cost.chain.empty());
}

BOOST_AUTO_TEST_CASE(seconds_scale_with_tokens_and_are_laid_out_on_slots) {
  Small small;
  small.past("other[i=9]", 50, 5);   // 0.1 s a token, of the same kind of stage
  const Estimate one = pipeline::estimate(small.graph, small.plan, small.store, machine(1));
  BOOST_TEST(one.known == 5u);
  BOOST_TEST(one.task_s == 150.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(one.wall_s == 150.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(one.bytes == 5000.0);
  BOOST_TEST(one.chain_s == 90.0, boost::test_tools::tolerance(1e-9));   // the longest a, then b
  BOOST_TEST((one.chain == std::vector<std::size_t>{3, 4}));
  // Two slots: 40 + 10 beside 30 + 20, then b.
  const Estimate two = pipeline::estimate(small.graph, small.plan, small.store, machine(2));
  BOOST_TEST(two.wall_s == 100.0, boost::test_tools::tolerance(1e-9));
  const Estimate many = pipeline::estimate(small.graph, small.plan, small.store, machine(64));
  BOOST_TEST(many.wall_s == many.chain_s, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(the_same_instance_counts_more_than_its_label_and_that_more_than_its_stage) {
  Small small;
  small.past("other[i=0]", 100, 1000);
  small.past("a[i=7]", 100, 20);
  small.past("a[i=0]", 100, 3);
  const Estimate cost = pipeline::estimate(small.graph, small.plan, small.store, machine(1));
  BOOST_TEST(cost.seconds[0] == 3.0, boost::test_tools::tolerance(1e-9));     // itself
  BOOST_TEST(cost.seconds[1] == 2 * 20.0, boost::test_tools::tolerance(1e-9));   // the median of a: 3 and 20
  BOOST_TEST(cost.seconds[4] == 5 * 20.0, boost::test_tools::tolerance(1e-9));   // the median of all
}

BOOST_AUTO_TEST_CASE(trainings_and_trajectories_are_one_history_in_tokens) {
  // Batches of 10, so that step 50 is token 500: 5 s, or 0.01 s a token.
  Small small;
  StageDescription stage = *small.graph.tasks[0].stage;
  stage.trajectory = TrajectoryDescription{"n", {"batch"}, Json::object()};
  for (Task& task : small.graph.tasks) {
    task.stage = std::make_shared<StageDescription>(stage);
    task.config.edit()["batch"] = 10;
  }
  PastTask snapshot = make_past_task({"trunk", 50}, "work", "trunk", "1", {{"config", {{"batch", 10}}}});
  snapshot.wall_s = 5;
  small.store.past["work"].push_back(snapshot);
  Estimate cost = pipeline::estimate(small.graph, small.plan, small.store, machine(1));
  BOOST_TEST(cost.seconds[1] == 2.0, boost::test_tools::tolerance(1e-9));   // 200 tokens

  // And a trajectory, from what trainings took: 30 steps are 300 tokens.
  small.store.past.clear();
  small.past("other[i=9]", 50, 5);   // 0.1 s a token
  small.graph.tasks[0].snapshots = {{"last", 30}};
  small.plan.tasks[0].snapshots = {PlannedSnapshot{}};
  small.plan.tasks[0].snapshots[0].step = 30;
  small.plan.tasks[0].snapshots[0].needed = true;
  cost = pipeline::estimate(small.graph, small.plan, small.store, machine(1));
  BOOST_TEST(cost.seconds[0] == 30.0, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(gpus_bound_the_wall_time_and_are_counted) {
  Resources demand;
  demand.gpus = 1;
  Small small(demand);
  small.past("a[i=9]", 100, 3600);
  const Estimate one = pipeline::estimate(small.graph, small.plan, small.store, machine(16, 1));
  BOOST_TEST(one.gpu_s == 15 * 3600.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(one.wall_s == 15 * 3600.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(pipeline::estimate(small.graph, small.plan, small.store, machine(16, 4)).wall_s == 9 * 3600.0,
             boost::test_tools::tolerance(1e-9));
  const Estimate none = pipeline::estimate(small.graph, small.plan, small.store, machine(16, 0));
  BOOST_TEST(none.too_large == 5u);
  BOOST_TEST(none.wall_s == 0.0);
}

BOOST_AUTO_TEST_CASE(past_estimates_are_judged_by_what_came) {
  Small small;
  small.past("a[i=0]", 100, 10, 8);       // 25 % over
  small.past("a[i=1]", 100, 10, 10);
  small.past("a[i=2]", 100, 10, 12.5);    // 25 % under
  small.past("a[i=3]", 100, 10);          // never estimated
  const Estimate cost = pipeline::estimate(small.graph, small.plan, small.store, machine(1));
  BOOST_TEST(cost.compared == 3u);
  BOOST_TEST(cost.error == 0.25, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(the_grid_shares_54_percent_of_its_tokens) {
  // Trunk to 0.9375; decays 0.05 + 0.10 + 0.20; drops 0.375 + 0.0625: 1.725 budgets, against 3.75 alone.
  const GridFolder folder;
  ExpandOptions options = GridFolder::plain_options();
  options.axis = {"encoding=rope", "size=tiny"};
  const Graph graph = folder.keyed(kGrid, options);
  const Sharing sharing = pipeline::sharing(graph, make_plan(graph, FakeStore()));
  BOOST_TEST(sharing.trunks == 3u);
  BOOST_TEST(sharing.shared_tokens / sharing.budget_tokens == 1.725, boost::test_tools::tolerance(1e-3));
  BOOST_TEST(sharing.alone_tokens / sharing.budget_tokens == 3.75, boost::test_tools::tolerance(1e-3));
}

BOOST_AUTO_TEST_SUITE_END()
