#include "support/files.h"

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "support/error.h"
#include "support/temp_folder.h"

using namespace pe::support;

BOOST_AUTO_TEST_SUITE(files)

BOOST_AUTO_TEST_CASE(an_atomic_write_replaces_the_whole_file_and_leaves_nothing_beside) {
  pe::test::TempFolder folder;
  write_file_atomically(folder / "a", "one");
  write_file_atomically(folder / "a", "two");
  BOOST_TEST(read_file(folder / "a") == "two");
  BOOST_TEST(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

BOOST_AUTO_TEST_CASE(a_temporary_file_that_is_there_already_is_left_alone) {
  const pe::test::TempFolder folder;
  const auto path = folder / "file";
  const std::string name = unique_sibling(path).string();
  const auto dot = name.rfind('.');
  // What another process of the same host name and number would call its own.
  const std::string next = name.substr(0, dot + 1) + std::to_string(std::stoi(name.substr(dot + 1)) + 1);
  std::ofstream(next) << "somebody's";
  write_file_atomically(path, "ours", false);
  BOOST_TEST(read_file(path) == "ours");
  BOOST_TEST(read_file(next) == "somebody's");
}

BOOST_AUTO_TEST_CASE(failures_name_the_path) {
  pe::test::TempFolder folder;
  BOOST_CHECK_EXCEPTION(read_file(folder / "none"), IoError, [&](const IoError& error) {
    return std::string(error.what()).find((folder / "none").string()) != std::string::npos && error.exit_code() == kExitIo;
  });
  BOOST_CHECK_EXCEPTION(write_file_atomically(folder / "no/such", "x"), IoError,
                        [](const IoError& error) { return error.exit_code() == kExitCannotCreate; });
  BOOST_CHECK_THROW(read_file(folder.path()), IoError);
}

BOOST_AUTO_TEST_CASE(a_read_is_bounded) {
  pe::test::TempFolder folder;
  std::ofstream(folder / "big") << std::string(1000, 'x');
  BOOST_CHECK_THROW(read_file(folder / "big", 999), IoError);
  BOOST_TEST(read_file(folder / "big", 1000).size() == 1000u);
}

BOOST_AUTO_TEST_CASE(a_mapped_file_shows_its_bytes) {
  pe::test::TempFolder folder;
  std::ofstream(folder / "m") << "mapped";
  std::ofstream(folder / "empty");
  BOOST_TEST(MappedFile(folder / "m").view() == "mapped");
  BOOST_TEST(MappedFile(folder / "empty").size() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
