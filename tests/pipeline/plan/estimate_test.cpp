// Costs before the run: from earlier times, laid out on slots; and the savings of sharing trajectories.
#include "pipeline/plan/estimate.h"

#include <boost/test/unit_test.hpp>

#include <cmath>

#include "pipeline/grid_fixture.h"
#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::FakeStore;
using pe::test::GridFolder;
using pe::test::kGrid;

namespace {

/// Four independent tasks `a` and one `b` that reads them all; each has the given demand.
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
  void past(const std::string& id, int n, double wall_s, double expected_s = 0, Json compute = {}) {
    PastTask task = make_past_task({"k" + std::to_string(store.past["work"].size()), -1}, "work", id, "1",
                                   {{"config", {{"n", n}, {"compute", std::move(compute)}}}});
    task.wall_s = wall_s;
    task.expected_s = expected_s;
    task.bytes = 1000;
    task.gpus = static_cast<std::int64_t>(std::ceil(graph.tasks[0].resources.gpus));
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
  small.past("other[i=9]", 50, 5);  // 0.1 s a token, of the same kind of stage
  const Estimate one = pipeline::estimate(small.graph, small.plan, small.store, machine(1));
  BOOST_TEST(one.known == 5u);
  BOOST_TEST(one.task_s == 150.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(one.wall_s == 150.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(one.bytes == 5000.0);
  BOOST_TEST(one.chain_s == 90.0, boost::test_tools::tolerance(1e-9));  // the longest a, then b
  BOOST_TEST((one.chain == std::vector<std::size_t>{3, 4}));
  // Two slots: 40 + 10 on one, 30 + 20 on the other, then b.
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
  BOOST_TEST(cost.seconds[0] == 3.0, boost::test_tools::tolerance(1e-9));       // itself
  BOOST_TEST(cost.seconds[1] == 2 * 20.0, boost::test_tools::tolerance(1e-9));  // the median of a: 3 and 20
  BOOST_TEST(cost.seconds[4] == 5 * 20.0, boost::test_tools::tolerance(1e-9));  // the median of all
}

BOOST_AUTO_TEST_CASE(trainings_and_trajectories_are_one_history_in_tokens) {
  // Batches of 10, so that step 50 is token 500: 5 s, or 0.01 s a token.
  Small small;
  StageDescription stage = *small.graph.tasks[0].stage;
  stage.trajectory = pe::artifact::Trajectory{"n", {"batch"}, Json::object()};
  for (Task& task : small.graph.tasks) {
    task.stage = std::make_shared<StageDescription>(stage);
    task.config.edit()["batch"] = 10;
  }
  PastTask snapshot = make_past_task({"trunk", 50}, "work", "trunk", "1", {{"config", {{"batch", 10}}}});
  snapshot.wall_s = 5;
  small.store.past["work"].push_back(snapshot);
  Estimate cost = pipeline::estimate(small.graph, small.plan, small.store, machine(1));
  BOOST_TEST(cost.seconds[1] == 2.0, boost::test_tools::tolerance(1e-9));  // 200 tokens

  // And a trajectory, from times of trainings: 30 steps are 300 tokens.
  small.store.past.clear();
  small.past("other[i=9]", 50, 5);  // 0.1 s a token
  small.graph.tasks[0].snapshots = {{"last", 30}};
  small.plan.tasks[0].snapshots = {PlannedSnapshot{}};
  small.plan.tasks[0].snapshots[0].step = 30;
  small.plan.tasks[0].snapshots[0].needed = true;
  cost = pipeline::estimate(small.graph, small.plan, small.store, machine(1));
  BOOST_TEST(cost.seconds[0] == 30.0, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(tokens_that_depend_on_an_input_come_from_the_record) {
  Small small;
  StageDescription stage = *small.graph.tasks[0].stage;
  stage.costs = {{"tokens", "n - inputs.in.tokens"}};
  for (Task& task : small.graph.tasks) task.stage = std::make_shared<StageDescription>(stage);
  stage.trajectory = pe::artifact::Trajectory{"n", {"batch"}, Json::object()};
  Task& trunk = small.graph.tasks[0];
  trunk.stage = std::make_shared<StageDescription>(stage);
  trunk.config.edit()["batch"] = 10;
  trunk.snapshots = {{"half", 30}};
  small.graph.tasks[1].inputs.push_back({"in", 0, "out", "half"});
  small.graph.tasks[1].config.edit()["n"] = 5300;
  small.past("a[i=9]", 100, 8);  // of other tokens by its config alone
  small.store.past["work"][0].tokens = 50;
  const Estimate cost = pipeline::estimate(small.graph, small.plan, small.store, machine(1));
  BOOST_TEST(cost.seconds[1] == 5000 * 8 / 50.0, boost::test_tools::tolerance(1e-9));
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

namespace {

/// A training of a model with `parameters` (FLOPs are six times as many), compared with earlier ones.
struct Trainings : Small {
  explicit Trainings(Resources demand = {}) : Small(demand) {
    StageDescription stage = *graph.tasks[0].stage;
    stage.program = "pe-work";
    stage.costs = {{"tokens", "n"}, {"parameters", "size"}, {"flops", "6 * size"}, {"encoding", "encoding"}};
    stage.outputs = {{"model", artifact::Kind::kCheckpoint}};
    graph.tasks.resize(1);
    plan.tasks.resize(1);
    graph.tasks[0].stage = std::make_shared<StageDescription>(stage);
    graph.tasks[0].config = Json{
        {"n", 1000}, {"size", 2e6}, {"encoding", "rope"}, {"compute", {{"dtype", "bf16"}, {"deterministic", "on"}}}};
  }
  void set(const char* name, Json value) { graph.tasks[0].config.edit()[name] = std::move(value); }
  void past_training(double parameters, double wall_s, const char* encoding = "rope", const char* device = "",
                     Json compute = {}) {
    past("a[i=9]", 100, wall_s, 0, std::move(compute));
    PastTask& task = store.past["work"].back();
    task.parameters = parameters;
    task.flops = 6 * parameters;
    task.encoding = encoding;
    task.device = device;
  }
  Estimate cost(const DeviceTable* table = nullptr, int gpus = 1) const {
    return pipeline::estimate(graph, plan, store, machine(64, gpus), table);
  }
};

Resources one_gpu() {
  Resources demand;
  demand.gpus = 1;
  return demand;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_model_of_another_size_costs_by_its_flops_and_one_that_is_far_is_unknown) {
  Trainings trainings;
  trainings.past_training(1e6, 10);  // 0.1 s a token
  trainings.past_training(100, 1);
  BOOST_TEST(trainings.cost().task_s == 200.0, boost::test_tools::tolerance(1e-9));  // twice the FLOPs
  BOOST_TEST(trainings.cost().bytes == 8e6);  // the end of a training: fp32 weights
  trainings.set("size", 5e6);
  const Estimate far = trainings.cost();
  BOOST_TEST(far.known == 0u);
  BOOST_TEST(far.unknown == 1u);
  BOOST_TEST(far.unknown_why.begin()->first == "a: no near run of pe-work");
  BOOST_TEST(far.bytes == 20e6);  // the size of outputs follows from the config all the same
  // Neither is another encoding an estimate for this one.
  trainings.set("size", 1e6);
  trainings.set("encoding", "fire");
  BOOST_TEST(trainings.cost().known == 0u);
  BOOST_TEST(trainings.cost().task_s == 0.0);
  BOOST_TEST(trainings.cost().other_encodings == 1u);  // but it gives a guess, in no sum
  BOOST_TEST(trainings.cost().other_encodings_s == 100.0, boost::test_tools::tolerance(1e-9));
  trainings.past_training(1e6, 60, "fire");
  BOOST_TEST(trainings.cost().other_encodings == 0u);
  BOOST_TEST(trainings.cost().task_s == 600.0, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(nothing_is_carried_over_from_another_device) {
  Trainings trainings;
  trainings.past_training(2e6, 10, "rope", "a CPU that nobody has");
  BOOST_TEST(trainings.cost().known == 0u);
  trainings.past_training(2e6, 20);
  BOOST_TEST(trainings.cost().task_s == 200.0, boost::test_tools::tolerance(1e-9));
  // Times on CPUs give no estimate for GPUs.
  trainings.graph.tasks[0].resources.gpus = 1;
  BOOST_TEST(trainings.cost().known == 0u);
}

BOOST_AUTO_TEST_CASE(nothing_is_carried_over_from_another_arithmetic) {
  Trainings trainings;
  StageDescription stage = *trainings.graph.tasks[0].stage;
  support::Field compute;
  compute.name = "compute";
  compute.type = support::FieldType::kGroup;
  for (const char* name : {"dtype", "isa"}) {
    support::Field field;
    field.name = name;
    compute.fields.push_back(field);
  }
  stage.fields = {compute};
  trainings.graph.tasks[0].stage = std::make_shared<StageDescription>(stage);
  trainings.set("compute", {{"dtype", "bf16"}, {"isa", "avx2"}});
  const auto past = [&](double wall_s, const char* precision, const char* isa) {
    trainings.past_training(2e6, wall_s, "rope", "AMD EPYC", {{"dtype", precision}, {"isa", isa}});
    return trainings.cost().task_s;
  };
  BOOST_TEST(past(1, "bf16", "avx512") == 0.0);  // a CPU of the same name
  BOOST_TEST(past(2, "fp32", "avx2") == 0.0);
  BOOST_TEST(past(3, "bf16", "avx2") == 30.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(past(1, "bf16", "avx512") == 30.0, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(snapshots_hold_the_moments_too) {
  Trainings trainings;
  StageDescription stage = *trainings.graph.tasks[0].stage;
  stage.trajectory = pe::artifact::Trajectory{"n", {"n"}, Json::object()};
  trainings.graph.tasks[0].stage = std::make_shared<StageDescription>(stage);
  trainings.graph.tasks[0].snapshots = {{"x", 1}, {"y", 2}, {"z", 3}};
  trainings.plan.tasks[0].snapshots.resize(3);
  for (std::size_t i = 0; i < 2; ++i) trainings.plan.tasks[0].snapshots[i].needed = true;
  const Estimate cost = trainings.cost();
  BOOST_TEST(cost.snapshots == 2u);
  BOOST_TEST(cost.checkpoint_bytes == 2 * 12 * 2e6);
}

BOOST_AUTO_TEST_CASE(a_stage_without_tokens_takes_as_long_as_with_nearly_the_same_config) {
  Small small;
  auto stage = std::make_shared<StageDescription>(*small.graph.tasks[0].stage);
  stage->costs = Json::object();
  for (const char* name : {"documents", "source", "seed"}) {
    support::Field field;
    field.name = name;
    stage->fields.push_back(field);
  }
  for (Task& task : small.graph.tasks) {
    task.stage = stage;
    task.config = Json{{"documents", 100}, {"source", "hub"}, {"seed", 1}};
  }
  const auto past = [&](Json config) {
    PastTask task = make_past_task({"k", -1}, "work", "x", "1", {{"config", std::move(config)}});
    task.wall_s = 7;
    small.store.past["work"] = {task};
    return pipeline::estimate(small.graph, small.plan, small.store, machine(8)).known;
  };
  BOOST_TEST(past({{"documents", 30}, {"source", "hub"}, {"seed", 99}}) == 5u);
  BOOST_TEST(past({{"documents", 20}, {"source", "hub"}, {"seed", 1}}) == 0u);
  BOOST_TEST(past({{"documents", 100}, {"source", "generated"}, {"seed", 1}}) == 0u);
  BOOST_TEST(past({{"documents", 100}, {"seed", 1}}) == 0u);
}

BOOST_AUTO_TEST_CASE(measured_figures_of_a_device_give_hours_and_say_where_they_come_from) {
  const DeviceTable h100 = read_device_table("h100");
  BOOST_TEST(h100.device == "NVIDIA H100 80GB HBM3");
  Trainings trainings(one_gpu());
  trainings.set("size", 163.6e6);
  trainings.set("n", 397.8e3 * 3600);
  BOOST_TEST(trainings.cost().known == 0u);
  // 6 N FLOPs in place of the 1,094.7 M that were measured with.
  const double hour = 3600 * 6 * 163.6 / 1094.7;
  Estimate cost = trainings.cost(&h100);
  BOOST_TEST(cost.gpu_s == hour, boost::test_tools::tolerance(1e-3));
  BOOST_TEST(cost.sources.begin()->first == "small (164M, 398k tokens/s) on NVIDIA H100 80GB HBM3, 2026-11-26");
  trainings.set("encoding", "fire");  // measured at tiny, which is near
  BOOST_TEST(trainings.cost(&h100).gpu_s == 6.15 * hour, boost::test_tools::tolerance(1e-3));
  trainings.set("encoding", "sinusoidal");
  BOOST_TEST(trainings.cost(&h100).gpu_s == 0.996 * hour, boost::test_tools::tolerance(1e-3));
  const auto why = [&] {
    cost = trainings.cost(&h100);
    return cost.known == 0 && cost.unknown_why.size() == 1 ? cost.unknown_why.begin()->first : std::string("known");
  };
  trainings.set("encoding", "fox");
  BOOST_TEST(why() == "a: encoding fox was not measured on NVIDIA H100 80GB HBM3");
  trainings.set("encoding", "fire");
  trainings.set("size", 469.8e6);
  BOOST_TEST(why() == "a: encoding fire at a size near 470M was not measured on NVIDIA H100 80GB HBM3");
  trainings.set("encoding", "rope");
  trainings.set("size", 7e9);
  BOOST_TEST(why() == "a: a model of 7.00B parameters, or near it, was not measured on NVIDIA H100 80GB HBM3");
  trainings.set("size", 1208e6);
  BOOST_TEST(trainings.cost(&h100).sources.begin()->first.starts_with("medium"));
  trainings.set("compute", {{"dtype", "fp32"}, {"deterministic", "on"}});
  BOOST_TEST(why() == "a: compute.dtype other than bf16 was not measured on NVIDIA H100 80GB HBM3");
  // A run on such a device counts more; one on another device nothing.
  trainings.past_training(1208e6, 50, "rope", "NVIDIA H100 80GB HBM3");
  BOOST_TEST(trainings.cost(&h100).sources.begin()->first == "runs of pe-work on NVIDIA H100 80GB HBM3");
  trainings.store.past["work"].back().device = "NVIDIA T4";
  BOOST_TEST(trainings.cost(&h100).known == 0u);
}

BOOST_AUTO_TEST_CASE(a_table_of_a_device_is_read_strictly) {
  BOOST_CHECK_EXCEPTION(read_device_table("h10"), support::ConfigError, [](const support::ConfigError& error) {
    BOOST_TEST(error.diagnostics()[0].message == "no speeds of a device 'h10' are known");
    BOOST_TEST(error.diagnostics()[0].hint.starts_with("did you mean 'h100'?"), error.diagnostics()[0].hint);
    return true;
  });
  const GridFolder folder;
  folder.write("own.yml",
               "schema: pe-device/1\ndevice: X\nmemory_gib: 8\nmeasured: today\ndtype: bf16\ndeterministic: on\n"
               "trainings: []\nencodings: {rope: {factor: 0}}\nspeed: 1\n");
  BOOST_CHECK_EXCEPTION(
      read_device_table(folder.path("own.yml").string()), support::ConfigError, [](const support::ConfigError& error) {
        BOOST_REQUIRE(error.diagnostics().size() == 2u);
        BOOST_TEST(error.diagnostics()[0].message == "expected a number above 0 for 'factor', found '0'");
        BOOST_TEST(error.diagnostics()[1].message == "unknown key 'speed'");
        return true;
      });
}

BOOST_AUTO_TEST_CASE(past_estimates_are_judged_by_what_came) {
  Small small;
  small.past("a[i=0]", 100, 10, 8);  // 25 % over
  small.past("a[i=1]", 100, 10, 10);
  small.past("a[i=2]", 100, 10, 12.5);  // 25 % under
  small.past("a[i=3]", 100, 10);        // never estimated
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
  // `none` has no drops, but the report reads the trunk's curve at 0.9375.
  options.axis = {"encoding=none", "size=tiny"};
  const Graph control = folder.keyed(kGrid, options);
  const Sharing trunk = pipeline::sharing(control, make_plan(control, FakeStore()));
  BOOST_TEST(trunk.shared_tokens / trunk.budget_tokens == 1.2875, boost::test_tools::tolerance(1e-3));
  BOOST_TEST(trunk.alone_tokens / trunk.budget_tokens == 1.75, boost::test_tools::tolerance(1e-3));
}

BOOST_AUTO_TEST_SUITE_END()
