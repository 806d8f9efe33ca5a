#include "support/figures.h"

#include <boost/test/unit_test.hpp>

using namespace pe::support;

BOOST_AUTO_TEST_SUITE(figures)

BOOST_AUTO_TEST_CASE(the_end_of_a_name_says_the_unit) {
  BOOST_TEST(figure_text("tokens_per_second", 31000) == "31.0k tokens/s");
  BOOST_TEST(figure_text("memory_bytes", 1288490188.8) == "memory 1.2 GiB");
  BOOST_TEST(figure_text("mfu", 0.381) == "mfu 38.1%");
  BOOST_TEST(figure_text("mfu", "n/a") == "mfu n/a");
  BOOST_TEST(figure_text("loss", 4.21378) == "loss 4.214");
  BOOST_TEST(figure_text("loss", "NaN") == "loss NaN");
  BOOST_TEST(figure_text("tokens", 2460000) == "tokens 2.46M");
}

BOOST_AUTO_TEST_CASE(what_matters_most_comes_first) {
  std::string names;
  for (const auto& [name, value] : figures_in_order({{"grad_norm", 1}, {"loss", 2}, {"mfu", 3}, {"tokens_per_second", 4}})) {
    names += name + " ";
  }
  BOOST_TEST(names == "loss tokens_per_second grad_norm mfu ");
  BOOST_TEST(figures_in_order(nullptr).empty());
}

BOOST_AUTO_TEST_SUITE_END()
