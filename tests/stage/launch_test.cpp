// Ranks of a stage on one machine, as shell scripts.
#include "stage/launch.h"

#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "support/error.h"
#include "support/files.h"
#include "support/process.h"
#include "support/progress.h"
#include "support/temp_folder.h"
#include "support/text.h"

using namespace pe;  // NOLINT
using stage::launch_ranks;
using stage::RankLaunch;

namespace {

struct HasMpirun {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(support::find_program("mpirun").has_value());
    result.message() << "mpirun was not found";
    return result;
  }
};

struct NoStop {
  NoStop() { support::request_stop(0); }
  ~NoStop() { support::request_stop(0); }
};

/// Ranks that run a script; $R is the rank, of whichever launcher.
RankLaunch script(const std::string& text, bool mpi) {
  RankLaunch launch;
  launch.mpi = mpi;
  launch.grace_s = 0.5;
  launch.arguments = {"/bin/sh", "-c", "R=${OMPI_COMM_WORLD_RANK:-$RANK}\n" + text};
  return launch;
}

/// As a rank of ours says it at its end.
const std::string kSay = "say() { [ -z \"$PE_RANK_STATUS\" ] || echo \"$R $1\" > \"$PE_RANK_STATUS\"; }\n";

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::vector<std::string> lines = support::split(support::read_file(path), '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(launch, NoStop)

BOOST_AUTO_TEST_CASE(plain_ranks_know_who_they_are_and_their_code_is_that_of_rank_0) {
  const test::TempFolder folder;
  RankLaunch three =
      script("echo $R $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR >> \"" + (folder / "who").string() + "\"; exit 75", false);
  three.count = 3;
  BOOST_TEST(launch_ranks(three) == 75);
  BOOST_TEST(
      lines_of(folder / "who") == (std::vector<std::string>{"0 3 0 127.0.0.1", "1 3 1 127.0.0.1", "2 3 2 127.0.0.1"}),
      boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_first_failure_ends_the_rest_even_one_that_does_not_listen) {
  for (const std::string end : {"exit 3", "kill -9 $$"}) {
    const auto begin = std::chrono::steady_clock::now();
    const int code =
        launch_ranks(script("if [ $R = 1 ]; then " + end + "; fi; trap '' TERM; while :; do sleep 0.05; done", false));
    BOOST_TEST(code == (end == "exit 3" ? 3 : 137));
    BOOST_TEST(seconds_since(begin) < 5);
  }
}

BOOST_AUTO_TEST_CASE(a_request_to_stop_reaches_every_rank) {
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    support::request_stop(15);
  });
  BOOST_TEST(launch_ranks(script("trap 'exit 75' TERM; while :; do sleep 0.05; done", false)) == 75);
  later.join();
}

BOOST_AUTO_TEST_CASE(who_did_not_listen_yet_when_it_was_asked_to_stop_was_interrupted) {
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    support::request_stop(15);
  });
  BOOST_TEST(launch_ranks(script("while :; do sleep 0.05; done", false)) == 130);
  later.join();
}

BOOST_AUTO_TEST_CASE(an_end_that_all_agree_on_is_no_failure_to_mpirun, *boost::unit_test::precondition(HasMpirun{})) {
  BOOST_TEST(launch_ranks(script(kSay + "say 75; exit 0", true)) == 75);
  BOOST_TEST(launch_ranks(script(kSay + "say 0; exit 0", true)) == 0);
}

BOOST_AUTO_TEST_CASE(a_rank_that_fails_or_is_killed_under_mpirun_ends_the_others,
                     *boost::unit_test::precondition(HasMpirun{})) {
  for (const std::string end : {"say 74; exit 74", "kill -9 $$"}) {
    const auto begin = std::chrono::steady_clock::now();
    const int code =
        launch_ranks(script(kSay + "if [ $R = 1 ]; then " + end + "; fi; while :; do sleep 0.05; done", true));
    BOOST_TEST(code == (end == "say 74; exit 74" ? 74 : 137));
    BOOST_TEST(seconds_since(begin) < 10);
  }
}

BOOST_AUTO_TEST_CASE(mpirun_hands_a_request_to_stop_on, *boost::unit_test::precondition(HasMpirun{})) {
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    support::request_stop(15);
  });
  BOOST_TEST(launch_ranks(script(kSay + "trap 'say 75; exit 0' USR1; while :; do sleep 0.05; done", true)) == 75);
  later.join();
}

BOOST_AUTO_TEST_CASE(without_mpirun_one_line_says_what_to_install) {
  const std::string path = ::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  BOOST_CHECK_EXCEPTION(launch_ranks(script("exit 0", true)), support::ConfigError, [](const auto& error) {
    const std::string text = error.what();
    return text.find("compute.ranks is 2, but mpirun was not found") != std::string::npos &&
           text.find("install openmpi-bin, or set compute.ranks: 1") != std::string::npos;
  });
  ::setenv("PATH", path.c_str(), 1);
}

BOOST_AUTO_TEST_SUITE_END()
