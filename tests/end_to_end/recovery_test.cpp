// Kills of everything at any time, and a disk that is full: the same command continues, and nothing is lost or made
// twice.
#include <signal.h>
#include <sys/mount.h>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "end_to_end/durable.h"
#include "end_to_end/project.h"
#include "pipeline/store/lease.h"
#include "support/can_mount.h"

using namespace pe;        // NOLINT
using namespace pe::test;  // NOLINT

namespace {

/// Keys of results, snapshots of trainings among them: no later run may make them again.
std::set<pipeline::ResultKey> finished(const Project& project) {
  std::set<pipeline::ResultKey> keys;
  for (const auto& [key, content] : project.contents()) keys.insert(key);
  return keys;
}

/// Repeated work of the runs other than `before` on `there`: tasks that they started, results that they published.
std::vector<std::string> made_again(const Project& project, const std::vector<std::string>& before,
                                    const std::set<pipeline::ResultKey>& there) {
  std::vector<std::string> again;
  for (const std::string& run : project.store().runs()) {
    if (std::find(before.begin(), before.end(), run) != before.end()) continue;
    for (const Json& event : pipeline::read_journal(project.root() / "store" / "runs" / run)) {
      const std::string what = event.value("event", "");
      if (what != "start" && what != "publish") continue;
      const pipeline::ResultKey key{event.value("key", ""), event.value("step", std::int64_t{-1})};
      if (there.count(key)) again.push_back(what + " " + event.value("task", "") + " " + key.short_name());
    }
  }
  return again;
}

enum class Victim { kOrchestrator, kStage, kBoth };

/// Kills a stage that is at work, as its lease names it.
bool kill_a_stage(const Project& project) {
  for (const auto& [key, owner] : pipeline::Leases::list(project.root() / "store" / "leases")) {
    if (!owner || owner->stage_pid <= 0 || pipeline::process_start(owner->stage_pid) != owner->stage_start) continue;
    if (owner->stage_start != 0 && ::kill(static_cast<pid_t>(owner->stage_pid), SIGKILL) == 0) return true;
  }
  return false;
}

/// A pipeline that kills of a stage cannot fail, since there are tries enough.
std::string with_retries() {
  std::string text = kToyPipeline;
  return text.insert(text.find("stages:"), "defaults:\n  retry: {max: 9, on: [transient, oom, node]}\n");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(recovery)

BOOST_AUTO_TEST_CASE(kills_of_orchestrator_and_stages_at_any_time_recover_to_the_same_contents) {
  const std::string text = with_retries();
  const Project undisturbed(text);
  const auto began = std::chrono::steady_clock::now();
  const Answer first = undisturbed.call("run");
  BOOST_REQUIRE_MESSAGE(first.code == 0, first.err);
  // Kills fall within the time that a whole run takes on this machine, or they would hit nothing.
  const auto whole =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began).count();
  const auto expected = undisturbed.contents();
  const char* wanted = ::getenv("PE_TEST_KILLS");
  const char* seeded = ::getenv("PE_TEST_SEED");
  const int kills_wanted = wanted ? std::atoi(wanted) : 12;
  std::mt19937 random(seeded ? static_cast<unsigned>(std::atoi(seeded)) : 20261121u);
  int orchestrators = 0, stages = 0, projects = 0;
  while (orchestrators + stages < kills_wanted) {
    const Project project(text);
    const bool durable = projects++ % 2 == 0;  // then kills fall between syncs too
    for (int round = 0; round < 4 && orchestrators + stages < kills_wanted; ++round) {
      const auto before = finished(project);
      const auto runs_before = project.store().runs();
      const auto victim = static_cast<Victim>(random() % 3);
      const pid_t pid = start_run(project, durable);
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % std::max<long>(whole, 20)));
      if (victim != Victim::kOrchestrator) stages += kill_a_stage(project);
      if (victim != Victim::kStage) ::kill(pid, SIGKILL);
      const auto status = support::wait_for(pid);
      orchestrators += status.signal == SIGKILL;
      BOOST_REQUIRE_MESSAGE(status.signal == SIGKILL || status.code == 0,
                            "exit code " << status.code << "\n"
                                         << support::read_file(project.root() / "run.out"));
      for (const std::string& what : made_again(project, runs_before, before))
        BOOST_REQUIRE_MESSAGE(false, "a finished result was made again: " << what);
    }
    const auto before = finished(project);
    const auto runs_before = project.store().runs();
    const Answer answer = project.call("run");
    BOOST_REQUIRE_MESSAGE(answer.code == 0, answer.err);
    BOOST_REQUIRE_MESSAGE((project.contents() == expected), answer.err);
    BOOST_REQUIRE(!has(answer.err, "conflict"));
    for (const std::string& what : made_again(project, runs_before, before))
      BOOST_REQUIRE_MESSAGE(false, "a finished result was made again: " << what);
    CHECK_HAS(project.call("run").out, "nothing to do");
  }
  BOOST_TEST_MESSAGE("killed " << orchestrators << " orchestrators and " << stages << " stages");
  BOOST_TEST(orchestrators > 0);
}

BOOST_AUTO_TEST_CASE(a_full_disk_ends_with_4_and_goes_on_when_there_is_room,
                     *boost::unit_test::precondition(CanMount{})) {
  const Project project;
  const fs::path tiny = project.root() / "tiny";
  fs::create_directories(tiny);
  // Larger and larger, so that it is full at another place each time.
  for (const char* size : {"size=160k", "size=200k", "size=260k", "size=340k"}) {
    BOOST_REQUIRE(::mount("tmpfs", tiny.c_str(), "tmpfs", 0, size) == 0);
    const std::string store = (tiny / "store").string();
    const Answer answer = project.call("run", {"--store", store});
    BOOST_TEST((answer.code == 4 || answer.code == 0), size << ": " << answer.code << " " << answer.err);
    if (answer.code == 4)
      BOOST_TEST(has(answer.err + answer.out, "No space left"), size << ": " << answer.err);
    else
      BOOST_TEST(std::string(size) != "size=160k");
    ::mount("tmpfs", tiny.c_str(), "tmpfs", MS_REMOUNT, "size=64m");
    const Answer again = project.call("run", {"--store", store});
    BOOST_TEST(again.code == 0, again.err);
    ::umount(tiny.c_str());
    fs::remove_all(project.root() / "out");
    fs::remove_all(project.root() / "reports");
  }
}

BOOST_AUTO_TEST_SUITE_END()
