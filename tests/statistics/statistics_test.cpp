#include "statistics/estimates.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "statistics/rankings.h"

using namespace pe::statistics;
namespace tt = boost::test_tools;

BOOST_AUTO_TEST_SUITE(statistics)

BOOST_AUTO_TEST_CASE(the_ratio_estimator_gives_the_golden_values) {
  const Ratio ratio = ratio_of_sums({300, 500, 320}, {100, 200, 100});
  BOOST_TEST(ratio.value == 2.8, tt::tolerance(1e-12));
  BOOST_TEST(std::exp(ratio.value) == 16.444647, tt::tolerance(1e-7));
  BOOST_TEST(ratio.se == 0.229129, tt::tolerance(1e-5));
  BOOST_TEST(1000 / (400 * std::log(2.0)) == 3.606738, tt::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(a_ratio_without_documents_or_with_one_has_no_error) {
  BOOST_TEST(std::isnan(ratio_of_sums({}, {}).value));
  BOOST_TEST(ratio_of_sums({3}, {2}).value == 1.5);
  BOOST_TEST(std::isnan(ratio_of_sums({3}, {2}).se));
}

BOOST_AUTO_TEST_CASE(the_mean_is_the_ratio_with_equal_weights) {
  const Ratio mean = mean_with_error({1, 2, 3, 4});
  BOOST_TEST(mean.value == 2.5);
  BOOST_TEST(mean.se == std::sqrt(5.0 / 3 / 4), tt::tolerance(1e-12));
  BOOST_TEST(mean.high() - mean.value == 1.959964 * mean.se, tt::tolerance(1e-6));
  BOOST_TEST(std::isnan(mean_with_error({}).value));
  BOOST_TEST(mean_with_error({3}).value == 3);
  BOOST_TEST(std::isnan(mean_with_error({3}).se));
  BOOST_TEST(std::isnan(ratio_of_sums({1}, {0}).value));
}

BOOST_AUTO_TEST_CASE(wilson_gives_the_golden_values) {
  BOOST_TEST(wilson(0, 20).low == 0.0);
  BOOST_TEST(wilson(0, 20).high == 0.1611, tt::tolerance(1e-3));
  BOOST_TEST(wilson(18, 20).low == 0.6990, tt::tolerance(1e-4));
  BOOST_TEST(wilson(18, 20).high == 0.9721, tt::tolerance(1e-4));
  BOOST_TEST(wilson(20, 20).high == 1.0);
  BOOST_TEST(wilson(5, 39).low == 0x1.cafb999bc2590p-5);   // to the last bit: artifacts have it
  BOOST_TEST(wilson(41 - 18, 41).high == 0x1.66f668125e20ep-1);
  BOOST_TEST(wilson(0, 0).low == 0.0);
  BOOST_TEST(wilson(0, 0).high == 1.0);
}

BOOST_AUTO_TEST_CASE(holm_gives_the_golden_values) {
  const auto adjusted = holm({.01, .04, .03});
  BOOST_TEST(adjusted[0] == .03, tt::tolerance(1e-12));
  BOOST_TEST(adjusted[1] == .06, tt::tolerance(1e-12));
  BOOST_TEST(adjusted[2] == .06, tt::tolerance(1e-12));
  const auto with_gap = holm({.01, NAN, .03});
  BOOST_TEST(with_gap[0] == .02, tt::tolerance(1e-12));
  BOOST_TEST(std::isnan(with_gap[1]));
}

BOOST_AUTO_TEST_CASE(three_seeds_have_a_t_interval_and_two_have_none) {
  const SeedSummary three = summarise_seeds({1, 2, 3});
  BOOST_TEST(three.mean == 2.0);
  BOOST_TEST(three.half_width == 4.30265 / std::sqrt(3.0), tt::tolerance(1e-5));
  BOOST_TEST(std::isnan(summarise_seeds({1, 2}).half_width));
  BOOST_TEST(std::isnan(summarise_seeds({1, NAN, 2}).mean));
  BOOST_TEST(std::isnan(summarise_seeds({}).mean));
}

BOOST_AUTO_TEST_CASE(seeds_are_paired_by_a_t_test) {
  // Differences 1, 2, 3: mean 2, sd 1, t = 2·√3 = 3.4641 with 2 degrees of freedom.
  const SeedPairs pairs = paired_seeds({11, 22, 33}, {10, 20, 30});
  BOOST_TEST(pairs.delta == 2.0);
  BOOST_TEST(pairs.sd == 1.0);
  BOOST_TEST(pairs.interval.low == 2 - 4.30265 / std::sqrt(3.0), tt::tolerance(1e-5));
  BOOST_TEST(pairs.p == 0.0741799, tt::tolerance(1e-5));
  BOOST_TEST(paired_seeds({1, 1, 1}, {1, 1, 1}).p == 1.0);
  BOOST_TEST(std::isnan(paired_seeds({1, 2}, {0, 0}).p));
  BOOST_TEST(std::isnan(paired_seeds({1, 2}, {0, 0}).interval.low));
  BOOST_TEST(std::isnan(paired_seeds({}, {}).delta));
  BOOST_TEST(std::isnan(paired_seeds({1, NAN, 2}, {0, 0, 0}).sd));
}

BOOST_AUTO_TEST_CASE(power_has_the_values_of_tables) {
  // A paired t test of an effect of 0.5 sd needs 34 pairs for 80 %, one of 1 sd 10 (Cohen's tables, two-sided 5 %).
  BOOST_TEST(power_of(0.5, 1, 33) < 0.8);
  BOOST_TEST(power_of(1, 1, 9) < 0.8);
  BOOST_TEST(power_of(1, 1, 10) >= 0.8);
  BOOST_TEST(power_of(0.5, 1, 34) == 0.8078, tt::tolerance(1e-3));
  BOOST_TEST(power_of(0, 1, 10) == 0.05, tt::tolerance(1e-6));    // no effect: the level of the test
  BOOST_TEST(power_of(-0.5, 1, 34) == power_of(0.5, 1, 34), tt::tolerance(1e-12));
  BOOST_TEST(std::isnan(power_of(1, 1, 1)));
}

BOOST_AUTO_TEST_SUITE_END()
