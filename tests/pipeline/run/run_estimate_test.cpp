// Expected times in a run: the plan's, corrected by ended tasks, and the end of the run on its slots.
#include "pipeline/run/run_estimate.h"

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

#include "pipeline/run/run_fixture.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT

namespace {

/// Four tasks `a` and one `b` that reads them all.
struct FourAndOne : test::SmallRun {
  std::vector<double> planned = {10, 20, 30, 40, 5};
  Plan made;
  std::unique_ptr<TaskStates> states;

  FourAndOne() {
    for (int i = 0; i < 4; ++i) add("a" + std::to_string(i));
    add("b", {0, 1, 2, 3});
    for (std::size_t i = 0; i < 4; ++i) task(i).label = "a";
    made = plan();
    states = std::make_unique<TaskStates>(graph, made, planned);
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) states->want(i);
  }
  Capacity cpus(std::int64_t count) const {
    Capacity capacity = options.capacity;
    capacity.cpus = count;
    return capacity;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(run_estimate)

BOOST_FIXTURE_TEST_CASE(planned_times_follow_the_pace_of_the_run, FourAndOne) {
  RunEstimate estimate(graph, made, planned);
  BOOST_TEST(estimate.expected_s(1) == 20.0);
  estimate.add(0, 15);  // half as fast again as planned
  BOOST_TEST(estimate.expected_s(1) == 30.0);
  BOOST_TEST(estimate.expected_s(4) == 5.0);  // of another stage
}

BOOST_FIXTURE_TEST_CASE(an_unplanned_task_takes_as_long_as_others_of_its_stage, FourAndOne) {
  planned = {10, 0, 0};
  RunEstimate estimate(graph, made, planned);
  BOOST_TEST(estimate.expected_s(1) == -1.0);
  BOOST_TEST(estimate.seconds()[1] == 1.0);
  estimate.add(0, 12);
  estimate.add(2, 20);
  BOOST_TEST(estimate.expected_s(1) == 16.0);
  BOOST_TEST(estimate.expected_s(4) == -1.0);
}

BOOST_FIXTURE_TEST_CASE(the_rest_is_laid_out_on_the_slots, FourAndOne) {
  RunEstimate estimate(graph, made, planned);
  BOOST_TEST(estimate.left_s(*states, {}, 0, cpus(1)) == 105.0);
  BOOST_TEST(estimate.left_s(*states, {}, 0, cpus(2)) == 55.0);  // 40 and 10, 30 and 20, then b
  BOOST_TEST(estimate.left_s(*states, {}, 0, cpus(4)) == 45.0);
  ActiveAttempt attempt;
  attempt.task = 3;
  attempt.started_s = 100;
  states->set_phase(3, TaskPhase::kRunning);
  BOOST_TEST(estimate.left_s(*states, {{1, attempt}}, 125, cpus(4)) == 35.0);   // a2 takes 30
  BOOST_TEST(estimate.left_s(*states, {{1, attempt}}, 1000, cpus(1)) == 65.0);  // longer than planned: any moment
  states->set_phase(3, TaskPhase::kDone);
  BOOST_TEST(estimate.left_s(*states, {}, 0, cpus(1)) == 65.0);
}

BOOST_FIXTURE_TEST_CASE(one_unknown_stage_leaves_the_end_unknown, FourAndOne) {
  planned[4] = 0;
  const RunEstimate estimate(graph, made, planned);
  BOOST_TEST(estimate.left_s(*states, {}, 0, cpus(1)) == -1.0);
}

BOOST_FIXTURE_TEST_CASE(a_twin_and_a_likely_reuse_take_no_time, FourAndOne) {
  planned = {10, 0, 30, 40, 0};
  made.tasks[1].same_as = 0;
  made.tasks[4].state = TaskState::kLikelyReuse;
  const RunEstimate estimate(graph, made, planned);
  BOOST_TEST(estimate.left_s(*states, {}, 0, cpus(1)) == 80.0);
}

BOOST_AUTO_TEST_SUITE_END()
