#include "support/suggest.h"

#include <boost/test/unit_test.hpp>

using namespace pe::support;

BOOST_AUTO_TEST_SUITE(suggest)

BOOST_AUTO_TEST_CASE(the_nearest_word_is_found) {
  BOOST_TEST(nearest("warmup_step", {"warmup_steps", "decay"}).value() == "warmup_steps");
  BOOST_TEST(nearest("rpoe", {"rope", "pope"}).value() == "rope");   // a swap costs one
  BOOST_TEST(!nearest("xyz", {"rope", "alibi"}));
  BOOST_TEST(nearest("tokens", {"train.tokens", "train.batch"}).value() == "train.tokens");
}

BOOST_AUTO_TEST_CASE(without_a_near_word_a_short_list_is_shown) {
  BOOST_TEST(suggestion("xyz", {"rope", "alibi"}) == "expected one of rope, alibi");
  BOOST_TEST(suggestion("xyz", {}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
