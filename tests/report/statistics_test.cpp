#include "report/statistics.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

using namespace pe::report;
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

BOOST_AUTO_TEST_CASE(wilson_gives_the_golden_values) {
  BOOST_TEST(wilson(0, 20).low == 0.0);
  BOOST_TEST(wilson(0, 20).high == 0.1611, tt::tolerance(1e-3));
  BOOST_TEST(wilson(18, 20).low == 0.6990, tt::tolerance(1e-4));
  BOOST_TEST(wilson(18, 20).high == 0.9721, tt::tolerance(1e-4));
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

BOOST_AUTO_TEST_CASE(a_model_does_not_differ_from_itself) {
  const std::vector<double> nll{300, 500, 320, 410}, tokens{100, 200, 100, 130};
  const Bootstrap bootstrap(4);
  const auto ratios = bootstrap.ratios(nll, tokens);
  const double theta = ratio_of_sums(nll, tokens).value;
  const PairedDifference same = paired_difference(theta, theta, ratios, ratios);
  BOOST_TEST(same.delta == 0.0);
  BOOST_TEST(same.interval.low == 0.0);
  BOOST_TEST(same.interval.high == 0.0);
  BOOST_TEST(same.p == 1.0);
  BOOST_TEST(!same.excludes_zero());
}

BOOST_AUTO_TEST_CASE(a_constant_shift_has_an_interval_of_no_width) {
  std::vector<double> nll{300, 500, 320, 410}, worse;
  const std::vector<double> tokens{100, 200, 100, 130};
  for (std::size_t i = 0; i < nll.size(); ++i) worse.push_back(nll[i] + 0.01 * tokens[i]);
  const Bootstrap bootstrap(4);
  const PairedDifference shift = paired_difference(ratio_of_sums(worse, tokens).value, ratio_of_sums(nll, tokens).value,
                                                   bootstrap.ratios(worse, tokens), bootstrap.ratios(nll, tokens));
  BOOST_TEST(shift.interval.low == 0.01, tt::tolerance(1e-9));
  BOOST_TEST(shift.interval.high == 0.01, tt::tolerance(1e-9));
  BOOST_TEST(shift.p == 2.0 / 10001, tt::tolerance(1e-12));
  BOOST_TEST(shift.excludes_zero());
}

BOOST_AUTO_TEST_CASE(resamples_depend_on_their_key_alone) {
  const std::vector<double> y{1, 2, 3, 4, 5}, x{1, 1, 1, 1, 1};
  BOOST_TEST(Bootstrap(5, 50).ratios(y, x) == Bootstrap(5, 50).ratios(y, x), tt::per_element());
  BOOST_TEST((Bootstrap(5, 50).ratios(y, x) != Bootstrap(5, 50, 1).ratios(y, x)));
}

BOOST_AUTO_TEST_CASE(the_bootstrap_agrees_with_the_analytic_error) {
  std::vector<double> y, x;
  for (int i = 0; i < 60; ++i) {
    x.push_back(100 + 7 * (i % 11));
    y.push_back(x.back() * (3 + 0.1 * std::sin(i * 1.7)));
  }
  const Interval interval = percentile_interval(Bootstrap(60).ratios(y, x));
  const Ratio ratio = ratio_of_sums(y, x);
  BOOST_TEST((interval.high - interval.low) / (2 * 1.96) == ratio.se, tt::tolerance(0.05));
}

BOOST_AUTO_TEST_SUITE_END()
