#include <boost/test/unit_test.hpp>

#include "support/config.h"
#include "support/error.h"
#include "training/branch_decay.h"
#include "training/drop_pe.h"
#include "training/schedule.h"
#include "training/train.h"

namespace {

using namespace pe::training;

constexpr double kTolerance = 1e-12;

Schedule wsd() {
  Schedule schedule;
  schedule.kind = ScheduleKind::kWsd;
  schedule.shape = DecayShape::kLinear;
  schedule.peak = 1;
  schedule.warmup = 10;
  schedule.decay_begin = 80;
  schedule.end = 100;
  return schedule;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(schedule)

BOOST_AUTO_TEST_CASE(wsd_warms_up_stays_and_decays) {
  const Schedule s = wsd();
  BOOST_TEST(s.at(0) == 0.1, boost::test_tools::tolerance(kTolerance));
  BOOST_TEST(s.at(9) == 1.0);
  BOOST_TEST(s.at(10) == 1.0);
  BOOST_TEST(s.at(79) == 1.0);
  BOOST_TEST(s.at(80) == 1.0);
  BOOST_TEST(s.at(85) == 0.75, boost::test_tools::tolerance(kTolerance));
  BOOST_TEST(s.at(99) == 0.05, boost::test_tools::tolerance(kTolerance));
  BOOST_TEST(s.at(100) == 0.0);
  BOOST_TEST(s.phase(5) == "warm-up");
  BOOST_TEST(s.phase(40) == "stable");
  BOOST_TEST(s.phase(80) == "decay");
  BOOST_TEST(s.phase(100) == "done");
}

BOOST_AUTO_TEST_CASE(shapes_have_their_values) {
  BOOST_TEST(decay_factor(DecayShape::kLinear, 0.25) == 0.75);
  BOOST_TEST(decay_factor(DecayShape::kOneMinusSqrt, 0.25) == 0.5);
  BOOST_TEST(decay_factor(DecayShape::kCosine, 0.25) == 0.8535533905932737, boost::test_tools::tolerance(kTolerance));
  BOOST_TEST(decay_factor(DecayShape::kOneMinusSquare, 0.25) == 0.9375);
  // (2^−2.5 − 2^−10) / (1 − 2^−10)
  BOOST_TEST(decay_factor(DecayShape::kExponential, 0.25) == 0.17597198043377926,
             boost::test_tools::tolerance(kTolerance));
  for (const DecayShape shape : {DecayShape::kLinear, DecayShape::kOneMinusSqrt, DecayShape::kCosine,
                                 DecayShape::kExponential, DecayShape::kOneMinusSquare}) {
    BOOST_TEST(decay_factor(shape, 0) == 1.0);
    BOOST_TEST(decay_factor(shape, 1) == 0.0);
  }
}

BOOST_AUTO_TEST_CASE(cosine_ends_at_its_floor) {
  Schedule s = wsd();
  s.kind = ScheduleKind::kCosine;
  s.final_share = 0.1;
  BOOST_TEST(s.at(10) == 1.0);
  BOOST_TEST(s.at(55) == 0.55, boost::test_tools::tolerance(kTolerance));
  BOOST_TEST(s.at(100) == 0.1, boost::test_tools::tolerance(kTolerance));
  BOOST_TEST(s.phase(55) == "cosine");
}

BOOST_AUTO_TEST_CASE(linear_falls_to_its_floor_from_the_warm_up_on) {
  Schedule s = wsd();
  s.kind = ScheduleKind::kLinear;
  s.final_share = 0.2;
  BOOST_TEST(s.at(4) == 0.5);
  BOOST_TEST(s.at(10) == 1.0);
  BOOST_TEST(s.at(55) == 0.6, boost::test_tools::tolerance(kTolerance));
  BOOST_TEST(s.at(100) == 0.2, boost::test_tools::tolerance(kTolerance));
  BOOST_TEST(s.phase(55) == "linear");
  BOOST_TEST(!s.free_of_horizon(55));
}

// A floor lifts the whole decay: f(x) is of the way from peak to floor.
BOOST_AUTO_TEST_CASE(every_shape_ends_at_the_floor) {
  for (const DecayShape shape : {DecayShape::kLinear, DecayShape::kOneMinusSqrt, DecayShape::kCosine,
                                 DecayShape::kExponential, DecayShape::kOneMinusSquare}) {
    Schedule s = wsd();
    s.shape = shape;
    s.final_share = 0.3;
    BOOST_TEST(s.at(100) == 0.3, boost::test_tools::tolerance(kTolerance));
    BOOST_TEST(s.at(85) == 0.3 + 0.7 * decay_factor(shape, 0.25), boost::test_tools::tolerance(kTolerance));
  }
}

BOOST_AUTO_TEST_CASE(the_stable_phase_does_not_know_the_horizon) {
  Schedule s = wsd(), longer = wsd();
  longer.decay_begin = longer.end = 1000;
  for (std::int64_t step = 0; step <= 80; ++step) BOOST_TEST(s.at(step) == longer.at(step));
  BOOST_TEST(s.free_of_horizon(80));
  BOOST_TEST(!s.free_of_horizon(81));
  BOOST_TEST(longer.phase(1000) == "stable");
}

BOOST_AUTO_TEST_CASE(horizons_round_up_and_shares_half_up) {
  BOOST_TEST(horizon_steps(2048, 2048) == 1);
  BOOST_TEST(horizon_steps(2049, 2048) == 2);
  BOOST_TEST(horizon_steps(600'000, 2048) == 293);
  BOOST_TEST(horizon_steps(1, 2048) == 1);
  BOOST_TEST(share_of_steps(0.5, 5) == 3);
  BOOST_TEST(share_of_steps(0.7, 15) == 11);  // 10.5, which float64 holds as 10.499…
  BOOST_TEST(share_of_steps(0.2, 293) == 59);
  BOOST_TEST(share_of_steps(1.0, 293) == 293);
}

BOOST_AUTO_TEST_CASE(a_decay_begins_at_end_times_one_minus_share) {
  BOOST_TEST(decay_span(0.5, 0.2, 100).begin == 40);
  BOOST_TEST(decay_span(0.5, 0.2, 100).end == 50);
}

BOOST_AUTO_TEST_CASE(a_trunk_decays_over_the_steps_of_a_branch_with_its_budget_and_from_the_snapshot_of_that_share) {
  for (std::int64_t steps = 1; steps < 400; ++steps) {
    for (int percent = 0; percent <= 100; ++percent) {
      TrainSettings settings;
      settings.batch = settings.length = 1;
      settings.tokens = steps;
      settings.decay_share = percent / 100.0;
      const Schedule trunk = schedule_of(settings);
      const DecaySpan branch = decay_span(1.0, settings.decay_share, steps);
      BOOST_REQUIRE(trunk.decay_begin == branch.begin && trunk.end == branch.end);
      BOOST_REQUIRE(branch.begin == share_of_steps(1 - settings.decay_share, steps));
    }
  }
  TrainSettings settings;  // 10.5 of 15 steps
  settings.batch = settings.length = 1;
  settings.tokens = 15;
  settings.decay_share = 0.3;
  BOOST_TEST(schedule_of(settings).decay_begin == 11);
}

BOOST_AUTO_TEST_CASE(a_drop_has_a_fresh_cosine_over_what_remains) {
  DropConfig config;
  config.peak_scale = 2;
  config.warmup_share = 0.1;
  const Schedule s = drop_schedule(config, 0.5, 60, 100);
  BOOST_TEST(s.warmup == 4);
  BOOST_TEST(s.at(60) == 0.25, boost::test_tools::tolerance(kTolerance));
  BOOST_TEST(s.at(63) == 1.0, boost::test_tools::tolerance(kTolerance));
  BOOST_TEST(s.at(100) == 0.1, boost::test_tools::tolerance(kTolerance));
  config.peak_lr = 0.3;
  BOOST_TEST(drop_schedule(config, 0.5, 60, 100).peak == 0.3);
}

BOOST_AUTO_TEST_CASE(a_warm_up_that_does_not_fit_is_told_with_its_steps) {
  BOOST_CHECK_EXCEPTION(pe::support::make_config<TrainSettings>({{"tokens", 2048}, {"batch", 16}, {"length", 128}}),
                        pe::support::ConfigError, [](const auto& error) {
                          return std::string(error.what()).find("1 steps") != std::string::npos;
                        });
}

BOOST_AUTO_TEST_SUITE_END()
