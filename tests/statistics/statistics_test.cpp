#include "statistics/estimates.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "statistics/rankings.h"
#include "statistics/sequential.h"
#include "statistics/two_level.h"
#include "support/random.h"

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

/// Two-sided 5 %, equally spaced looks; to be found in Reboussin, DeMets, Kim and Lan (Controlled Clinical Trials 21,
/// 2000) and by `ldBounds` and `gsDesign` in R.
BOOST_AUTO_TEST_CASE(bounds_of_repeated_looks_are_the_published_ones) {
  const std::vector<std::vector<double>> published = {
      {2.963, 1.969}, {3.710, 2.511, 1.993}, {4.333, 2.963, 2.359, 2.014}, {4.877, 3.357, 2.680, 2.290, 2.031}};
  for (const std::vector<double>& bounds : published) {
    std::vector<double> shares;
    for (std::size_t i = 1; i <= bounds.size(); ++i)
      shares.push_back(static_cast<double>(i) / static_cast<double>(bounds.size()));
    const std::vector<double> found = look_bounds(shares, 0.05);
    BOOST_REQUIRE(found.size() == bounds.size());
    for (std::size_t i = 0; i < bounds.size(); ++i) BOOST_TEST(std::abs(found[i] - bounds[i]) < 6e-4);
  }
  BOOST_TEST(spent_alpha(0.5, 0.05) == 0.003051, tt::tolerance(1e-3));
  BOOST_TEST(spent_alpha(1, 0.05) == 0.05);
  BOOST_TEST(look_bounds({1}, 0.05).at(0) == kNormal95, tt::tolerance(1e-8));  // one look is the usual test
}

BOOST_AUTO_TEST_CASE(looks_spend_alpha_as_seeds_are_added) {
  const Looks looks{.from = 3, .most = 8};
  BOOST_TEST(looks.count(2) == 0u);
  BOOST_TEST(looks.count(3) == 1u);
  BOOST_TEST(looks.count(8) == 6u);
  BOOST_TEST(looks.level(2, 0.05) == 0);
  BOOST_TEST(looks.level(3, 0.05) == looks.spent(3, 0.05), tt::tolerance(1e-6));
  for (std::size_t seeds = 4; seeds <= 8; ++seeds) {
    BOOST_TEST(looks.level(seeds, 0.05) > looks.level(seeds - 1, 0.05));
    BOOST_TEST(looks.level(seeds, 0.05) < looks.spent(seeds, 0.05));
  }
  BOOST_TEST(looks.spent(8, 0.05) == 0.05);
  const std::vector<double> levels = looks.levels(8, 0.05);
  BOOST_REQUIRE(levels.size() == 6u);
  for (std::size_t seeds = 3; seeds <= 8; ++seeds) BOOST_TEST(levels[seeds - 3] == looks.level(seeds, 0.05));
  BOOST_TEST(looks.levels(2, 0.05).empty());
  const Looks many{.from = 3, .most = 100};
  BOOST_TEST(many.level(3, 0.05) > 0);  // tiny, and a number
  BOOST_TEST(std::isfinite(two_level({{1}, {2}, {4}}).interval_at(many.level(3, 0.05)).low));
}

/// Studies without an effect: how many are called decided, with and without the correction.
BOOST_AUTO_TEST_CASE(a_study_that_adds_seeds_is_seldom_decided_by_chance) {
  pe::support::Xoshiro generator(20);
  const auto normal = [&] {
    return std::sqrt(-2 * std::log(1 - generator.uniform())) *
           std::cos(2 * 3.14159265358979323846 * generator.uniform());
  };
  constexpr int kStudies = 2000;
  for (const Looks& looks : {Looks{3, 8}, Looks{3, 12}, Looks{5, 10}}) {
    for (const double item_noise : {0.0, 1.0}) {
      int corrected = 0, plain = 0;
      std::vector<double> levels;
      for (std::size_t seeds = 0; seeds <= looks.most; ++seeds) levels.push_back(looks.level(seeds, 0.05));
      for (int study = 0; study < kStudies; ++study) {
        std::vector<double> items(item_noise > 0 ? 10 : 1);
        for (double& item : items) item = item_noise * normal();
        std::vector<std::vector<double>> values;
        bool decided = false, called = false;
        while (values.size() < looks.most) {
          const double of_seed = normal();
          std::vector<double>& row = values.emplace_back(items);
          for (double& value : row) value += of_seed + item_noise * normal();
          if (values.size() < looks.from) continue;
          const TwoLevel level = two_level(values);
          const Interval interval = level.interval_at(levels[values.size()]);
          decided = decided || interval.low > 0 || interval.high < 0;
          called = called || level.interval.low > 0 || level.interval.high < 0;
        }
        corrected += decided;
        plain += called;
      }
      BOOST_TEST_CONTEXT(looks.from << " to " << looks.most << " seeds, item noise " << item_noise << ": " << corrected
                                    << " of " << kStudies << ", uncorrected " << plain) {
        BOOST_TEST(corrected < 0.058 * kStudies + 3 * std::sqrt(0.058 * 0.942 * kStudies));
        BOOST_TEST(corrected > 0.02 * kStudies);
        if (item_noise == 0) BOOST_TEST(plain > 0.1 * kStudies);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(wilson_gives_the_golden_values) {
  BOOST_TEST(wilson(0, 20).low == 0.0);
  BOOST_TEST(wilson(0, 20).high == 0.1611, tt::tolerance(1e-3));
  BOOST_TEST(wilson(18, 20).low == 0.6990, tt::tolerance(1e-4));
  BOOST_TEST(wilson(18, 20).high == 0.9721, tt::tolerance(1e-4));
  BOOST_TEST(wilson(20, 20).high == 1.0);
  BOOST_TEST(wilson(5, 39).low == 0x1.cafb999bc2590p-5);  // to the last bit: artifacts have it
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
  // Shared among three comparisons: t(1 - 0.05 / 6, 2) = 7.6488.
  BOOST_TEST(paired_seeds({11, 22, 33}, {10, 20, 30}, 0.05 / 3).interval.low == 2 - 7.6488 / std::sqrt(3.0),
             tt::tolerance(1e-4));
  BOOST_TEST(paired_seeds({1, 1, 1}, {1, 1, 1}).interval.low == 0.0);
  BOOST_TEST(std::isnan(paired_seeds({1, 2}, {0, 0}).interval.low));
  BOOST_TEST(std::isnan(paired_seeds({}, {}).delta));
  BOOST_TEST(std::isnan(paired_seeds({1, NAN, 2}, {0, 0, 0}).sd));
}

BOOST_AUTO_TEST_SUITE_END()
