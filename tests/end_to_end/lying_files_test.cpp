// A file system that lies to pe-pipeline: with any lie, no run crashes, no result is wrong, and an honest run after
// it ends with the same contents.
#include <signal.h>
#include <boost/test/unit_test.hpp>

#include "end_to_end/durable.h"
#include "end_to_end/project.h"

using namespace pe;        // NOLINT
using namespace pe::test;  // NOLINT

namespace {

/// Environment of a run with false answers. Stages are not affected: their environment is an allow-list.
std::vector<std::string> lies(const Project& project, const std::string& kinds, int seed, int one_in, int late_ms = 0) {
  return {"LD_PRELOAD=" + std::string(PE_LYING_FILES),
          "PE_LIES=under=" + (project.root() / "store").string() + ";kinds=" + kinds + ";seed=" + std::to_string(seed) +
              ";one_in=" + std::to_string(one_in) + ";late_ms=" + std::to_string(late_ms)};
}

std::string output(const Project& project) { return support::read_file(project.root() / "run.out"); }

const std::map<pipeline::ResultKey, std::string>& expected() {
  static const auto* contents = [] {
    const Project project;
    BOOST_REQUIRE(project.call("run").code == 0);
    return new std::map<pipeline::ResultKey, std::string>(project.contents());
  }();
  return *contents;
}

int rounds() {
  const char* wanted = ::getenv("PE_TEST_LIES");
  return wanted ? std::atoi(wanted) : 3;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lying_files)

BOOST_AUTO_TEST_CASE(the_library_lies_at_all) {
  const Project project;
  const auto status = support::wait_for(project.start({}, lies(project, "eio", 1, 1)));
  BOOST_TEST(status.code == 4, output(project));
  CHECK_HAS(output(project), "Input/output error");
}

BOOST_AUTO_TEST_CASE(calls_that_fail_end_a_run_in_order_and_the_next_goes_on) {
  int failed = 0;
  for (const char* kind : {"eio", "enospc", "estale"}) {
    for (int round = 0; round < rounds(); ++round) {
      const Project project;
      for (int seed = 1; seed <= 2; ++seed) {
        const auto status =
            support::wait_for(start_run(project, seed == 1, lies(project, kind, 100 * round + seed, 60)));
        BOOST_REQUIRE_MESSAGE(status.signal == 0, kind << " seed " << seed << ":\n" << output(project));
        BOOST_REQUIRE_MESSAGE((status.code == 0 || status.code == 1 || status.code == 3 || status.code == 4),
                              kind << " ended with " << status.code << "\n"
                                   << output(project));
        failed += status.code != 0;
      }
      const Answer answer = project.call("run");
      BOOST_REQUIRE_MESSAGE(answer.code == 0, answer.err);
      BOOST_REQUIRE((project.contents() == expected()));
      BOOST_REQUIRE(!has(output(project) + answer.err, "conflict"));
    }
  }
  BOOST_TEST(failed > 0);
}

BOOST_AUTO_TEST_CASE(replies_that_were_lost_and_short_writes_do_not_even_fail) {
  for (const char* kind : {"replayed", "short", "replayed,short"}) {
    for (int round = 0; round < rounds(); ++round) {
      const Project project;
      const auto status = support::wait_for(start_run(project, round % 2 == 0, lies(project, kind, round + 7, 3)));
      BOOST_REQUIRE_MESSAGE(status.code == 0, kind << " ended with " << status.code << "\n" << output(project));
      BOOST_REQUIRE((project.contents() == expected()));
      BOOST_REQUIRE(!has(output(project), "conflict"));
      CHECK_HAS(project.call("run").out, "nothing to do");
    }
  }
}

BOOST_AUTO_TEST_CASE(names_that_come_late_cost_time_and_nothing_else) {
  for (int round = 0; round < rounds(); ++round) {
    const Project project;
    const auto environment = lies(project, "late", round + 1, 1, 400);
    std::vector<pid_t> runs;
    for (int i = 0; i < 3; ++i) runs.push_back(start_run(project, i == 0, environment));
    for (const pid_t pid : runs) {
      const auto status = support::wait_for(pid);
      BOOST_REQUIRE_MESSAGE(status.code == 0, "ended with " << status.code << "\n" << output(project));
    }
    BOOST_REQUIRE((project.contents() == expected()));
    BOOST_REQUIRE(!has(output(project), "conflict"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
