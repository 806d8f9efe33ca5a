/// @file
/// Real data for tests, where a machine has it: in the folder that PE_TEST_DATA names, else in `shared/data` next to
/// the source tree. Tests that need it say so and skip where it is absent.
#pragma once

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <optional>
#include <string>

namespace pe::test {

std::filesystem::path source_root();
std::filesystem::path build_root();

/// The file or folder of that name, where it is on this machine.
std::optional<std::filesystem::path> test_data(const std::string& name);

/// A precondition for a test case: `*boost::unit_test::precondition(pe::test::HasData{"fineweb"})`.
struct HasData {
  std::string name;
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(test_data(name).has_value());
    if (!result) result.message() << "the test data '" << name << "' is not on this machine (set PE_TEST_DATA)";
    return result;
  }
};

}  // namespace pe::test
