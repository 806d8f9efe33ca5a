#include "evaluation/summary.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

using namespace pe::evaluation;

BOOST_AUTO_TEST_SUITE(summary)

BOOST_AUTO_TEST_CASE(the_ratio_estimator_has_its_golden_values) {
  const Ratio theta = ratio({300, 500, 320}, {100, 200, 100});
  BOOST_TEST(std::abs(theta.value - 2.8) < 1e-12);
  BOOST_TEST(std::abs(std::exp(theta.value) - 16.444647) < 1e-6);
  BOOST_TEST(std::abs(theta.se - 0.229129) < 1e-6);
  BOOST_TEST(std::abs(1000 / (std::log(2.0) * 400) - 3.606738) < 1e-6);
}

BOOST_AUTO_TEST_CASE(the_mean_is_the_ratio_with_equal_weights) {
  const Ratio m = mean({1, 2, 3, 4});
  BOOST_TEST(m.value == 2.5);
  BOOST_TEST(std::abs(m.se - std::sqrt(5.0 / 3 / 4)) < 1e-12);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_estimated_is_nan_and_never_zero) {
  BOOST_TEST(std::isnan(mean({}).value));
  BOOST_TEST(mean({3}).value == 3);
  BOOST_TEST(std::isnan(mean({3}).se));
  BOOST_TEST(std::isnan(ratio({1}, {0}).value));
}

BOOST_AUTO_TEST_CASE(wilson_intervals_have_their_golden_values) {
  const Interval none = wilson(0, 20);
  BOOST_TEST(none.low == 0);
  BOOST_TEST(std::abs(none.high - 0.1611) < 5e-5);
  const Interval most = wilson(18, 20);
  BOOST_TEST(std::abs(most.low - 0.6990) < 5e-5);
  BOOST_TEST(std::abs(most.high - 0.9721) < 5e-5);
  const Interval all = wilson(20, 20);
  BOOST_TEST(all.high == 1);
  const Interval nothing = wilson(0, 0);
  BOOST_TEST(nothing.low == 0);
  BOOST_TEST(nothing.high == 1);
}

BOOST_AUTO_TEST_SUITE_END()
