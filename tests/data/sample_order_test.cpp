#include "data/token_shards/sample_order.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

using namespace pe;
using data::SampleOrder;

BOOST_AUTO_TEST_SUITE(sample_order)

BOOST_AUTO_TEST_CASE(every_epoch_visits_every_window_once_in_an_order_of_its_own) {
  for (const std::uint64_t n : {1ul, 2ul, 10ul, 1000ul, 70'001ul}) {
    const SampleOrder order(42, n);
    std::vector<std::uint64_t> first, second;
    for (std::uint64_t k = 0; k < n; ++k) first.push_back(order(k));
    for (std::uint64_t k = n; k < 2 * n; ++k) second.push_back(order(k));
    if (n > 9) BOOST_TEST(first != second);
    for (auto* epoch : {&first, &second}) {
      std::sort(epoch->begin(), epoch->end());
      for (std::uint64_t i = 0; i < n; ++i) BOOST_REQUIRE((*epoch)[i] == i);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_resumed_run_goes_on_where_the_first_stopped) {
  const SampleOrder whole(7, 12345);
  std::vector<std::uint64_t> expected;
  for (std::uint64_t k = 0; k < 30'000; ++k) expected.push_back(whole(k));
  for (const std::uint64_t stop : {0ul, 1ul, 12'344ul, 12'345ul, 20'001ul}) {
    const SampleOrder resumed(7, 12345);
    for (std::uint64_t k = stop; k < 30'000; k += 97) BOOST_REQUIRE(resumed(k) == expected[k]);
  }
  BOOST_TEST(SampleOrder(8, 12345)(0) + SampleOrder(8, 12345)(1) != expected[0] + expected[1]);
}

BOOST_AUTO_TEST_CASE(the_order_is_part_of_reproducibility) {
  // By an independent program: xoshiro256** of key(42, fnv1a64("data order"), epoch), Fisher-Yates from the last
  // element.
  const SampleOrder order(42, 10);
  std::vector<std::uint64_t> found;
  for (std::uint64_t k = 0; k < 20; ++k) found.push_back(order(k));
  BOOST_TEST(found == (std::vector<std::uint64_t>{6, 3, 0, 4, 7, 5, 9, 2, 8, 1, 3, 2, 5, 7, 6, 1, 8, 4, 9, 0}));
}

BOOST_AUTO_TEST_SUITE_END()
