/// @file
/// Preconditions: programs of others that a test compares with. A machine without them skips it, and says so.
#pragma once

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/error.h"
#include "support/process.h"
#include "support/test_data.h"

namespace pe::test {

struct Installed {
  std::string program;
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(support::find_program(program).has_value());
    if (!result) result.message() << program << " is not installed";
    return result;
  }
};

/// The Python that PE_TEST_PYTHON names, else the one with the peers of `bootstrap test`, else Debian's.
inline std::string chosen_python() {
  if (const char* chosen = std::getenv("PE_TEST_PYTHON")) return chosen;
  const std::filesystem::path peers = source_root() / ".deps/peers/python";
  return std::filesystem::exists(peers) ? peers.string() : "/usr/bin/python3";
}

/// A Python that can import modules, as "h5py, numpy".
struct PythonHas {
  std::string modules;
  std::string python = "/usr/bin/python3";
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    static const char* const kMissing =
        "import importlib, sys\n"
        "for name in sys.argv[1].split(', '):\n"
        "  try: importlib.import_module(name)\n"
        "  except Exception: print(name)\n";
    std::string missing = modules;
    try {
      const support::CapturedOutput ran = support::capture({python, "-c", kMissing, modules});
      if (ran.status.code == 0) missing = ran.out;
    } catch (const support::IoError&) {
      // There is no such Python.
    }
    while (missing.ends_with('\n')) missing.pop_back();
    std::replace(missing.begin(), missing.end(), '\n', ' ');
    boost::test_tools::assertion_result result(missing.empty());
    if (!result) result.message() << python << " has no " << missing;
    return result;
  }
};

/// The same of at least one of several modules, "entmax", "transformers".
struct PythonHasOneOf {
  std::vector<std::string> modules;
  std::string python = chosen_python();
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id unit) const {
    boost::test_tools::assertion_result none(false);
    for (const std::string& module : modules) {
      if (PythonHas{module, python}(unit)) return true;
      none.message() << (none.has_empty_message() ? python + " has none of " : ", ") << module;
    }
    return none;
  }
};

}  // namespace pe::test
