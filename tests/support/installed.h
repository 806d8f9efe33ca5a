/// @file
/// Preconditions: programs of others that a test compares with. A machine without them skips it, and says so.
#pragma once

#include <boost/test/unit_test.hpp>

#include <string>

#include "support/error.h"
#include "support/process.h"

namespace pe::test {

struct Installed {
  std::string program;
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(support::find_program(program).has_value());
    if (!result) result.message() << program << " is not installed";
    return result;
  }
};

/// A Python that can import modules, as "h5py, numpy".
struct PythonHas {
  std::string modules;
  std::string python = "/usr/bin/python3";
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    bool there = false;
    try {
      there = support::capture({python, "-c", "import " + modules}).status.code == 0;
    } catch (const support::IoError&) {
      // There is no such Python.
    }
    boost::test_tools::assertion_result result(there);
    if (!result) result.message() << python << " has no " << modules;
    return result;
  }
};

}  // namespace pe::test
