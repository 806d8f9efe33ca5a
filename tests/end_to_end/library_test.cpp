// The encodings as a library: an installation into an empty folder, and the example of doc/use-as-a-library.md built
// against it with pkg-config alone.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>

#include "support/files.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/text.h"

namespace fs = std::filesystem;
using pe::support::capture;
using pe::support::CapturedOutput;

namespace {

/// The meson that configured this build folder, as its build.ninja calls it.
std::vector<std::string> meson_command() {
  for (const std::string& line :
       pe::support::split(pe::support::read_file(pe::test::build_root() / "build.ninja"), '\n')) {
    const auto at = line.find(" --internal regenerate");
    if (at == std::string::npos) continue;
    const std::string command(pe::support::trim(line.substr(0, at)));
    return pe::support::split(command.substr(command.find("= ") + 2), ' ');
  }
  return {};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(library)

BOOST_AUTO_TEST_CASE(the_example_builds_and_runs_against_an_installed_prefix) {
  char name[] = "/tmp/pe-library-XXXXXX";  // without blanks: pkg-config's answer is split at them
  const fs::path prefix = ::mkdtemp(name);
  std::vector<std::string> install = meson_command();
  BOOST_REQUIRE(!install.empty());
  for (const std::string& word :
       {std::string("install"), std::string("--no-rebuild"), std::string("--tags"), std::string("devel"),
        std::string("-C"), pe::test::build_root().string(), std::string("--destdir"), prefix.string()}) {
    install.push_back(word);
  }
  const CapturedOutput installed = capture(install);
  BOOST_REQUIRE_MESSAGE(installed.status.code == 0, installed.out << installed.err);
  fs::path pc;
  for (const auto& entry : fs::recursive_directory_iterator(prefix)) {
    if (entry.path().filename() == "pe-encodings.pc") pc = entry.path();
  }
  BOOST_REQUIRE(!pc.empty());
  const std::string source = (pe::test::source_root() / "examples/library/attention.cpp").string();
  const std::string program = (prefix / "attention").string();
  const std::string compiler = std::system("command -v ccache >/dev/null 2>&1") == 0 ? "ccache c++" : "c++";
  const std::string script =
      pe::support::cat("set -e; cd ", prefix.string(), "; export PKG_CONFIG_PATH=", pc.parent_path().string(), "; ",
                       compiler, " -std=c++20 -O0 -c '", source,
                       "' -o attention.o $(pkg-config --cflags pe-encodings); c++ attention.o -o attention "
                       "$(pkg-config --libs pe-encodings)");
  const CapturedOutput built = capture({"/bin/sh", "-c", script});
  BOOST_REQUIRE_MESSAGE(built.status.code == 0, built.out << built.err);
  const CapturedOutput ran = capture({program});
  BOOST_TEST(ran.status.code == 0, ran.err);
  for (const char* part : {"x[0, 1, 0] = 0.841471", "bias table: 4 heads, 16 distances, 128 learned numbers",
                           "route: fused, distance table; gradient of ssmax's s: 4 numbers"}) {
    BOOST_TEST(ran.out.find(part) != std::string::npos, part << " is missing in: " << ran.out);
  }
  fs::remove_all(prefix);
}

BOOST_AUTO_TEST_SUITE_END()
