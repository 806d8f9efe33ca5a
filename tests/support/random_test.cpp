// Golden values from the project's specification of its random functions; two independent programs agreed on them.
#include "support/random.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>

#include "support/hash.h"

using namespace pe::support;

BOOST_AUTO_TEST_SUITE(random_functions)  // `random` is a function of libc

BOOST_AUTO_TEST_CASE(mixing_and_keys_have_their_golden_values) {
  BOOST_TEST(mix(0) == 0xe220a8397b1dcdafULL);
  BOOST_TEST(mix(1) == 0x910a2dec89025cc1ULL);
  BOOST_TEST(fnv1a64("copy_multi") == 0xda55249e4c122e26ULL);
  BOOST_TEST(make_key({20260101, fnv1a64("copy_multi"), 2, 20, 7}) == 0x4326beff96001635ULL);
}

BOOST_AUTO_TEST_CASE(the_generator_has_its_golden_values) {
  Xoshiro generator(0x4326beff96001635ULL);
  const std::array<std::uint64_t, 4> state = {0xcfb9d35afbb52f0eULL, 0xde7972a86cdec59eULL, 0xaa172049bf0c5491ULL,
                                              0xf243399a0a10cfc4ULL};
  BOOST_TEST(generator.state() == state, boost::test_tools::per_element());
  BOOST_TEST(generator.next() == 12435509021243237516ULL);
  BOOST_TEST(generator.next() == 8135457014558169469ULL);
  BOOST_TEST(generator.next() == 17691976923141489157ULL);
  Xoshiro fresh(0x4326beff96001635ULL);
  for (const std::uint64_t expected : {17, 11, 24, 6, 6, 11, 1, 23, 25, 12, 18, 16}) {
    BOOST_TEST(fresh.below(26) == expected);
  }
}

BOOST_AUTO_TEST_CASE(doubles_shuffles_and_samples_have_their_golden_values) {
  Xoshiro doubles(0x4326beff96001635ULL);
  BOOST_TEST(std::abs(doubles.uniform() - .67413029483975) < 1e-14);
  BOOST_TEST(std::abs(doubles.uniform() - .44102400846732) < 1e-14);
  BOOST_TEST(std::abs(doubles.uniform() - .95908399078167) < 1e-14);
  std::vector<int> items(10);
  std::iota(items.begin(), items.end(), 0);
  Xoshiro(0x4326beff96001635ULL).shuffle(items);
  const std::vector<int> shuffled = {8, 5, 4, 0, 2, 9, 1, 7, 3, 6};
  BOOST_TEST(items == shuffled, boost::test_tools::per_element());
  const std::vector<std::uint64_t> sample = {6, 4, 9, 1};
  BOOST_TEST(Xoshiro(0x4326beff96001635ULL).sample(10, 4) == sample, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(normals_have_their_golden_values) {
  const std::uint64_t key = make_key({42, fnv1a64("embedding")});
  BOOST_TEST(key == 0x91674e3345507062ULL);
  const double expected[] = {1.338102019, -.687162228,  -.080811292, -1.000357242,
                             1.090459951, -1.160227044, .628166204,  -.733905954};
  double normals[8];
  philox_normal(key, normals, 8);
  for (int i = 0; i < 8; ++i) BOOST_TEST(std::abs(normals[i] - expected[i]) < 1e-9);
  double tail[3];
  philox_normal(key, tail, 3, 3);  // an element depends on its number, not on who drew before
  for (int i = 0; i < 3; ++i) BOOST_TEST(tail[i] == normals[i + 3]);
}

BOOST_AUTO_TEST_CASE(philox_agrees_with_its_published_test_vector) {
  // Random123's known answer for key and counter of zero.
  const auto words = philox(0, 0);
  BOOST_TEST(words[0] == 0x6627e8d5u);
  BOOST_TEST(words[1] == 0xe169c58du);
  BOOST_TEST(words[2] == 0xbc57ac4cu);
  BOOST_TEST(words[3] == 0x9b00dbd8u);
}

BOOST_AUTO_TEST_CASE(a_permutation_visits_every_index_once) {
  for (const std::uint64_t n : {1ULL, 2ULL, 10ULL, 1000ULL, 65535ULL, 65536ULL, 65537ULL, 200000ULL}) {
    const Permutation permutation(make_key({7, n}), n);
    std::vector<bool> seen(n);
    std::uint64_t distinct = 0;
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t at = permutation(i);
      BOOST_REQUIRE_LT(at, n);
      if (!seen[at]) ++distinct;
      seen[at] = true;
    }
    BOOST_TEST(distinct == n);
  }
}

BOOST_AUTO_TEST_CASE(a_permutation_moves_with_its_key) {
  for (const std::uint64_t n : {1000ULL, 100000ULL}) {
    const Permutation one(1, n), other(2, n);
    std::uint64_t fixed = 0, same = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      fixed += one(i) == i;
      same += one(i) == other(i);
    }
    BOOST_TEST(fixed < 12);
    BOOST_TEST(same < 12);
  }
}

BOOST_AUTO_TEST_CASE(bounded_draws_are_even) {
  Xoshiro generator(99);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts[generator.below(7)];
  for (const int count : counts) BOOST_TEST(std::abs(count - 10000) < 400);  // four standard deviations
}

BOOST_AUTO_TEST_SUITE_END()
