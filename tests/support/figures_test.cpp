#include "support/progress_format.h"

#include <boost/test/unit_test.hpp>

using namespace pe::support;

BOOST_AUTO_TEST_SUITE(figures)

BOOST_AUTO_TEST_CASE(the_end_of_a_name_says_the_unit) {
  BOOST_TEST(format_metric("tokens_per_second", 31000) == "31.0k tokens/s");
  BOOST_TEST(format_metric("memory_bytes", 1288490188.8) == "memory 1.2 GiB");
  BOOST_TEST(format_metric("mfu", 0.381) == "mfu 38.1%");
  BOOST_TEST(format_metric("mfu", "n/a") == "mfu n/a");
  BOOST_TEST(format_metric("loss", 4.21378) == "loss 4.214");
  BOOST_TEST(format_metric("loss", "NaN") == "loss NaN");
  BOOST_TEST(format_metric("tokens", 2460000) == "tokens 2.46M");
}

BOOST_AUTO_TEST_CASE(what_matters_most_comes_first) {
  std::string names;
  for (const auto& [name, value] :
       figures_in_order({{"grad_norm", 1}, {"loss", 2}, {"mfu", 3}, {"tokens_per_second", 4}})) {
    names += name + " ";
  }
  BOOST_TEST(names == "loss tokens_per_second grad_norm mfu ");
  BOOST_TEST(figures_in_order(nullptr).empty());
}

BOOST_AUTO_TEST_SUITE_END()
