#include "support/files.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "support/error.h"
#include "support/folders.h"
#include "support/hash.h"
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
  // The name that another process of the same host name and number would choose.
  const std::string next = name.substr(0, dot + 1) + std::to_string(std::stoi(name.substr(dot + 1)) + 1);
  std::ofstream(next) << "somebody's";
  write_file_atomically(path, "ours", false);
  BOOST_TEST(read_file(path) == "ours");
  BOOST_TEST(read_file(next) == "somebody's");
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_listed_is_not_empty) {
  const pe::test::TempFolder folder;
  write_file_atomically(folder / "b", "");
  write_file_atomically(folder / "a", "");
  BOOST_TEST((list_folder(folder.path()) == std::vector<std::string>{"a", "b"}));
  BOOST_TEST(list_folder(folder / "none").empty());
  BOOST_TEST(!is_there(folder / "none"));
  BOOST_TEST(!is_there(folder / "a/none"));
  BOOST_TEST(is_there(folder / "a"));
  fs::create_symlink("round", folder / "round");
  BOOST_CHECK_THROW(list_folder(folder / "round"), IoError);
  BOOST_CHECK_THROW(list_folder(folder / "a"), IoError);
  BOOST_CHECK_THROW(is_there(folder / "round"), IoError);
  std::error_code error;
  BOOST_TEST(list_folder(folder / "round", error).empty());
  BOOST_TEST(error.value() == ELOOP);
  BOOST_TEST(list_folder(folder / "none", error).empty());
  BOOST_TEST(!error);
}

BOOST_AUTO_TEST_CASE(a_name_that_is_not_utf8_is_refused_and_shown) {
  BOOST_CHECK_NO_THROW(require_utf8("caf\u00e9/file"));
  try {
    require_utf8(
        "caf\xe9/\xff"
        "file");
    BOOST_FAIL("nothing was refused");
  } catch (const ConfigError& error) {
    BOOST_TEST(error.diagnostics().front().message == "the name 'caf\\xe9/\\xfffile' is not UTF-8");
  }
}

BOOST_AUTO_TEST_CASE(failures_name_the_path) {
  pe::test::TempFolder folder;
  BOOST_CHECK_EXCEPTION(read_file(folder / "none"), IoError, [&](const IoError& error) {
    return std::string(error.what()).find((folder / "none").string()) != std::string::npos &&
           error.exit_code() == kExitIo;
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

namespace {

/// Fails instead of waiting for a FIFO's other end for ever.
struct AtMost {
  explicit AtMost(unsigned seconds) { ::alarm(seconds); }
  ~AtMost() { ::alarm(0); }
};

template <typename Body>
std::pair<int, std::string> error_of(const Body& body) {
  try {
    body();
  } catch (const IoError& error) {
    return {error.exit_code(), error.what()};
  }
  return {0, ""};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_no_regular_file_is_not_read_and_nobody_is_waited_for) {
  const AtMost patience(20);
  const pe::test::TempFolder folder;
  const fs::path fifo = folder / "fifo";
  BOOST_REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  for (const auto& [code, text] : {error_of([&] { read_file(fifo); }), error_of([&] { MappedFile mapped(fifo); }),
                                   error_of([&] { sha256_file(fifo); }), error_of([&] { open_regular(fifo); })}) {
    BOOST_TEST(code == kExitIo);
    BOOST_TEST(has(text, fifo.string() + "': expected a regular file, found a FIFO"), text);
  }
  BOOST_TEST(has(error_of([] { read_file("/dev/zero"); }).second, "found a device"));
  BOOST_TEST(has(error_of([&] { read_file(folder.path()); }).second, "found a folder"));
  write_file_atomically(folder / "real", "bytes");
  fs::create_symlink("real", folder / "link");
  BOOST_TEST(read_file(folder / "link") == "bytes");  // a name is followed where it is read
  BOOST_TEST(!irregular_kind(folder / "link", true));
  BOOST_TEST(irregular_kind(folder / "link", false).value() == "a symbolic link");
  BOOST_TEST(!irregular_kind(folder / "none", false));
}

BOOST_AUTO_TEST_CASE(what_is_no_regular_file_is_not_replaced) {
  const pe::test::TempFolder folder;
  const fs::path fifo = folder / "fifo", link = folder / "link", real = folder / "real", fresh = folder / "fresh";
  BOOST_REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  write_file_atomically(real, "bytes");
  fs::create_symlink("real", link);
  for (const auto& [path, kind] : {std::pair{fifo, "a FIFO"}, {link, "a symbolic link"}, {folder.path(), "a folder"}}) {
    const auto [code, text] = error_of([&] { write_file_atomically(path, "x"); });
    BOOST_TEST(code == kExitCannotCreate);
    BOOST_TEST(has(text, path.string() + "': it is " + kind), text);
  }
  write_file_atomically(fresh, "x");
  for (const fs::path& path : {fifo, link}) {
    BOOST_TEST(error_of([&] { rename_durably(fresh, path); }).first == kExitCannotCreate);
  }
  BOOST_TEST(irregular_kind(fifo, false).value() == "a FIFO");
  BOOST_TEST(irregular_kind(link, false).value() == "a symbolic link");
  BOOST_TEST(read_file(real) == "bytes");
  fs::create_symlink("fresh", folder / "other link");
  rename_durably(folder / "other link", link);  // as views of a store are moved to other artifacts
  BOOST_TEST(fs::read_symlink(link) == "fresh");
  BOOST_TEST(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 4);
}

BOOST_AUTO_TEST_CASE(a_limit_of_file_sizes_is_an_error_that_names_it) {
  const pe::test::TempFolder folder;
  const pid_t child = ::fork();  // the limit stays with it
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto [code, text] = error_of([&] { write_file_atomically(folder / "new", std::string(2000, 'x')); });
    ::_exit(code == kExitIo && has(text, "ulimit -f") ? 0 : 1);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST(WIFEXITED(status));
  BOOST_TEST(WEXITSTATUS(status) == 0);
  BOOST_TEST(fs::is_empty(folder.path()));
}

BOOST_AUTO_TEST_CASE(names_as_long_as_they_may_be_can_be_written_and_longer_ones_are_an_error) {
  const pe::test::TempFolder folder;
  const std::string longest(255, 'x');
  write_file_atomically(folder / longest, "x", false);
  BOOST_TEST(read_file(folder / longest) == "x");
  BOOST_CHECK_THROW(make_folders(folder / (longest + "x")), IoError);
}

BOOST_AUTO_TEST_SUITE_END()
