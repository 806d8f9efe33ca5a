// The searches for divisors, on scores whose best answer is known.
#include <boost/test/unit_test.hpp>

#include "encodings/extension/longrope.h"
#include "encodings/extension/longrope_search.h"
#include "spot_values.h"

using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

FrequencySchedule schedule(std::int64_t width) {
  return {.theta = geometric_frequencies(10000, width), .base = 10000, .width = width};
}

/// Lowest at divisors that grow linearly to `factor`, and at four protected positions.
struct Valley {
  double factor;
  std::int64_t calls = 0;
  std::vector<RescaleFactors> seen;
  double operator()(const RescaleFactors& f) {
    ++calls;
    seen.push_back(f);
    double sum = std::abs(static_cast<double>(f.protected_positions) - 4) / 256;
    const auto n = static_cast<double>(f.divisors.size() - 1);
    for (std::size_t i = 0; i < f.divisors.size(); ++i) {
      sum += std::pow(f.divisors[i] - (1 + (factor - 1) * static_cast<double>(i) / n), 2);
    }
    return sum;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(longrope_search)

BOOST_AUTO_TEST_CASE(a_search_gets_below_every_set_that_it_starts_from) {
  Valley valley{.factor = 8};
  const FactorSearchOptions options{.generations = 30};
  const auto found = search_longrope(schedule(16), 512, 8, options, std::ref(valley));
  Valley judge{.factor = 8};
  for (const char* rule : {"pi", "ntk", "yarn"}) {
    const auto theta = frequencies(score(R"({"kind": ")" + std::string(rule) + R"(", "factor": 8})", 16, 512));
    RescaleFactors start;
    for (std::size_t i = 0; i < theta.size(); ++i) start.divisors.push_back(schedule(16).theta[i] / theta[i]);
    BOOST_TEST(found.score < judge(start), rule);
  }
  BOOST_TEST(found.score == judge(found.best));
  BOOST_TEST(found.evaluated == valley.calls);
  BOOST_TEST(found.evaluated <= 16 + 30 * 16);
  BOOST_TEST(found.best_of_generation.size() == 31U);
  BOOST_TEST(std::is_sorted(found.best_of_generation.rbegin(), found.best_of_generation.rend()));
  BOOST_TEST(found.best_of_generation.back() == found.score);
}

BOOST_AUTO_TEST_CASE(every_set_that_is_tried_is_legal_and_new) {
  Valley valley{.factor = 4};
  search_longrope(schedule(16), 512, 4, {}, std::ref(valley));
  for (std::size_t n = 0; n < valley.seen.size(); ++n) {
    const RescaleFactors& f = valley.seen[n];
    BOOST_TEST(std::is_sorted(f.divisors.begin(), f.divisors.end()));
    BOOST_TEST(f.divisors.front() >= 1);
    BOOST_TEST(f.divisors.back() <= 5);
    for (std::size_t m = 0; m < n; ++m) {
      BOOST_TEST(
          (valley.seen[m].divisors != f.divisors || valley.seen[m].protected_positions != f.protected_positions));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_second_search_slows_pairs_from_a_critical_one_on) {
  Valley valley{.factor = 8};
  const auto found = search_longrope2(schedule(64), 512, 8, {}, std::ref(valley));
  std::set<std::int64_t> critical;
  for (const RescaleFactors& f : valley.seen) {
    BOOST_TEST(std::is_sorted(f.divisors.begin(), f.divisors.end()));
    BOOST_TEST(f.divisors.front() == 1);
    BOOST_TEST(f.protected_positions == 0);
    const auto first = std::find_if(f.divisors.begin(), f.divisors.end(), [](double d) { return d >= 8; });
    critical.insert(first - f.divisors.begin());
    BOOST_TEST(f.divisors.back() <= 16);
    // Before it a larger base: the divisors are powers of the critical one.
    const double at_critical = *first, n = static_cast<double>(first - f.divisors.begin());
    check_near(f.divisors[2], std::pow(at_critical, 2 / n), 1e-9);
  }
  BOOST_TEST(*critical.begin() >= 8);    // ten turns in the training length
  BOOST_TEST(*critical.rbegin() <= 16);  // one turn
  BOOST_TEST(critical.size() > 2U);
  BOOST_TEST(found.score <= found.best_of_generation.front());
}

BOOST_AUTO_TEST_CASE(the_same_seed_finds_the_same) {
  const auto run = [](std::uint64_t seed) {
    return search_longrope(schedule(16), 512, 8, {.seed = seed}, Valley{.factor = 8}).best.divisors;
  };
  BOOST_TEST((run(3) == run(3)));
  BOOST_TEST((run(3) != run(4)));
}

BOOST_AUTO_TEST_CASE(scores_that_are_no_numbers_lose) {
  const auto found = search_longrope(schedule(8), 64, 4, {.generations = 3}, [](const RescaleFactors& f) {
    return f.divisors.front() > 1 ? std::numeric_limits<double>::quiet_NaN() : f.divisors.back();
  });
  BOOST_TEST(found.best.divisors.front() == 1);
  BOOST_TEST(std::isfinite(found.score));
}

BOOST_AUTO_TEST_CASE(a_candidate_replaces_the_rule_of_a_model_in_use) {
  Score s = score(R"("rope")", 8, 64);
  auto& rotary = dynamic_cast<Rotary&>(*s.encoding);
  const double plain = s(f8(true), f8(false), 5, 2);
  rotary.rescale_with(longrope_rescaling({.divisors = {1, 2, 4, 8}}, 64, 1));
  check_near(s(f8(true), f8(false), 5, 2), .504224558974, 1e-11);
  rotary.rescale_with({});
  BOOST_TEST(s(f8(true), f8(false), 5, 2) == plain);
}

BOOST_AUTO_TEST_CASE(nothing_to_search_is_said) {
  BOOST_CHECK_THROW(search_longrope(schedule(8), 64, 1, {}, Valley{.factor = 1}), support::ConfigError);
  BOOST_CHECK_THROW(search_longrope2({}, 64, 4, {}, Valley{.factor = 4}), support::ConfigError);
}

BOOST_AUTO_TEST_SUITE_END()
