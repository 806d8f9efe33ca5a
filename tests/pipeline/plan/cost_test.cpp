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

BOOST_AUTO_TEST_CASE(a_trajectory_costs_what_leads_to_its_last_needed_snapshot) {
  auto stage = std::make_shared<StageDescription>();
  stage->trajectory = TrajectoryDescription{"train.tokens", {"train.batch", "train.length"}, Json::object()};
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
