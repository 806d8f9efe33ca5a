// Fault points do nothing until a hook is there, and nothing after it is gone.
#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#include "support/fault_point.h"

using namespace pe::support;

BOOST_AUTO_TEST_SUITE(fault_points)

BOOST_AUTO_TEST_CASE(a_hook_is_told_of_every_step_while_it_lives) {
  std::vector<std::string> steps;
  fault_point("before");
  {
    const FaultHook hook([&](std::string_view step) { steps.emplace_back(step); });
    fault_point("sync");
    fault_point("link");
  }
  fault_point("after");
  BOOST_TEST((steps == std::vector<std::string>{"sync", "link"}));
}

BOOST_AUTO_TEST_CASE(what_a_hook_throws_is_thrown_by_the_step) {
  const FaultHook hook([](std::string_view) { throw std::runtime_error("disk full"); });
  BOOST_CHECK_THROW(fault_point("write"), std::runtime_error);
}

BOOST_AUTO_TEST_SUITE_END()
