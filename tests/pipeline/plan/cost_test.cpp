#include "pipeline/plan/cost.h"

#include <boost/test/unit_test.hpp>

using namespace pe::pipeline;
using pe::Json;

BOOST_AUTO_TEST_SUITE(cost)

BOOST_AUTO_TEST_CASE(expressions_are_arithmetic_over_config_keys) {
  const Json config = {{"train", {{"tokens", 1000}, {"batch", 4}}}, {"x", 0.5}, {"name", "rope"}};
  BOOST_TEST(evaluate_expression("train.tokens", config).value() == 1000.0);
  BOOST_TEST(evaluate_expression("train.tokens * (1 - x) / train.batch + 2e1", config).value() == 145.0);
  BOOST_TEST(evaluate_expression("2 - 1 - 1", config).value() == 0.0);
}

BOOST_AUTO_TEST_CASE(what_is_no_expression_has_no_value) {
  const Json config = {{"a", 1}, {"name", "rope"}};
  for (const char* text : {"", "a +", "(a", "a)", "b", "name", "a a", "a.b", "* a", "()"})
    BOOST_TEST(!evaluate_expression(text, config), text);
  BOOST_TEST(!evaluate_expression(std::string(10000, '('), config));
}

BOOST_AUTO_TEST_CASE(a_default_stands_for_zero_and_a_switch_is_a_number) {
  const Json config = {{"width", 8}, {"heads", 2}, {"head_width", 0}, {"tied", true}, {"norm", false}};
  BOOST_TEST(evaluate_expression("head_width | width / heads", config).value() == 4.0);
  BOOST_TEST(evaluate_expression("2 * (heads | width)", config).value() == 4.0);
  BOOST_TEST(evaluate_expression("width * (2 - tied) + norm", config).value() == 8.0);
  // A value that is not needed may be unknown.
  BOOST_TEST(evaluate_expression("(width | inputs.data.vocabulary) + 1", config).value() == 9.0);
  BOOST_TEST(!evaluate_expression("head_width | inputs.data.vocabulary", config));
  BOOST_TEST(!evaluate_expression("nothing + (width | 1)", config));
  BOOST_TEST(!evaluate_expression("width |", config));
}

BOOST_AUTO_TEST_CASE(costs_of_inputs_are_those_of_the_tasks_that_make_them) {
  const auto make = [](Json costs, Json config) {
    auto stage = std::make_shared<StageDescription>();
    stage->costs = std::move(costs);
    Task task;
    task.stage = stage;
    task.config = std::move(config);
    return task;
  };
  Graph graph;
  const Json by_kind = Json::array(
      {{{"when", {{"kind", "bytes"}}}, {"value", "258"}}, {{"when", {{"kind", "bpe"}}}, {"value", "size"}}});
  graph.tasks.push_back(make({{"vocabulary", by_kind}}, {{"kind", "bpe"}, {"size", 512}}));
  graph.tasks.push_back(
      make({{"parameters", "inputs.data.vocabulary * width"}, {"flops", "0"}, {"encoding", "model.encoding"}},
           {{"width", 8}, {"model", {{"encoding", {{"stack", {"rope", {{"kind", "ssmax"}, {"n", 2}}}}}}}}}));
  graph.tasks.push_back(
      make({{"parameters", "inputs.init.parameters"}, {"encoding", "inputs.init.encoding"}}, Json::object()));
  graph.tasks[1].inputs.push_back({"data", 0, "data", ""});
  graph.tasks[2].inputs.push_back({"init", 1, "model", ""});
  const ModelCosts costs = model_costs(graph, graph.tasks[2]);
  BOOST_TEST(costs.parameters.value() == 4096.0);
  BOOST_TEST(!costs.flops);
  BOOST_TEST(costs.encoding == "rope+ssmax");
  graph.tasks[0].config.edit()["kind"] = "file";  // says nothing of its vocabulary
  BOOST_TEST(!model_costs(graph, graph.tasks[2]).parameters);
}

BOOST_AUTO_TEST_CASE(a_trajectory_costs_what_leads_to_its_last_needed_snapshot) {
  auto stage = std::make_shared<StageDescription>();
  stage->trajectory = pe::artifact::Trajectory{"train.tokens", {"train.batch", "train.length"}, Json::object()};
  Task task;
  task.stage = stage;
  task.config = Json{{"train", {{"batch", 2}, {"length", 8}, {"tokens", 1600}}}};
  task.snapshots = {{"a", 10}, {"b", 80}};
  PlannedTask planned;
  planned.snapshots.resize(2);
  planned.snapshots[0].needed = true;
  BOOST_TEST(training_tokens({}, task, planned).value() == 160.0);
  planned.snapshots[1].needed = true;
  BOOST_TEST(training_tokens({}, task, planned).value() == 1280.0);
}

BOOST_AUTO_TEST_SUITE_END()
