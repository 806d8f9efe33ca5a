#include "support/parallel_chunks.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

using pe::support::parallel_chunks;

BOOST_AUTO_TEST_SUITE(share_out_work)

BOOST_AUTO_TEST_CASE(each_piece_is_done_once_whatever_the_parts) {
  for (const std::size_t count : {0u, 1u, 7u, 64u, 1000u}) {
    for (const std::size_t part : {1u, 3u, 64u, 5000u}) {
      std::vector<std::atomic<int>> done(count);
      parallel_chunks(count, part, [&](std::size_t begin, std::size_t end) {
        BOOST_REQUIRE(begin < end);
        BOOST_REQUIRE(end <= count);
        BOOST_REQUIRE(end - begin <= part);
        for (std::size_t i = begin; i < end; ++i) ++done[i];
      });
      for (const auto& times : done) BOOST_REQUIRE(times == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_first_failure_is_thrown_when_all_have_ended_and_the_rest_is_left_out) {
  std::atomic<int> at_work = 0, begun = 0;
  const auto work = [&](std::size_t begin, std::size_t) {
    ++at_work;
    ++begun;
    // So slow that no thread finishes all of them before the failure is seen.
    if (begin > 5) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --at_work;
    if (begin == 5) throw std::runtime_error("five");
  };
  BOOST_CHECK_THROW(parallel_chunks(100'000, 1, work), std::runtime_error);
  BOOST_TEST(at_work == 0);
  BOOST_TEST(begun < 100'000);
}

BOOST_AUTO_TEST_SUITE_END()
