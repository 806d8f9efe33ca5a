#include "pipeline/run/local_runner.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <chrono>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "pipeline/run/stage_log.h"
#include "pipeline/store/attempt.h"
#include "pipeline/store/host.h"
#include "support/error.h"
#include "support/files.h"
#include "support/kernel_file.h"
#include "support/process.h"
#include "support/temp_folder.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
namespace fs = std::filesystem;

namespace {

struct Runs {
  test::TempFolder folder;
  LocalRunner runner;
  std::uint64_t last = 0;

  /// The script is a program's argument here, as in any test that needs a shell; the runner itself never starts one.
  std::uint64_t start(const std::string& script, std::vector<std::string> environment = {"PATH=/usr/bin:/bin"}) {
    Launch launch;
    launch.ticket = ++last;
    launch.arguments = {"/bin/sh", "-c", script};
    launch.environment = std::move(environment);
    launch.directory = folder.path();
    launch.log = folder / "stage.log";
    runner.start(launch);
    return last;
  }
  std::vector<RunnerEvent> until_exit(std::size_t exits = 1) {
    std::vector<RunnerEvent> all;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(100);
    while (exits > 0 && std::chrono::steady_clock::now() < until) {
      for (RunnerEvent& event : runner.wait(0.05)) {
        exits -= event.kind == RunnerEvent::Kind::kExit;
        all.push_back(std::move(event));
      }
    }
    return all;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(local_runner)

BOOST_FIXTURE_TEST_CASE(messages_come_in_order_and_before_the_exit, Runs) {
  start(
      "echo '{\"event\":\"a\"}' >&3; echo 'no json' >&3; printf '{\"event\":' >&3; sleep 0.02; echo '\"b\"}' >&3; echo "
      "out; echo err >&2; exit 7");
  const auto events = until_exit();
  BOOST_REQUIRE(events.size() == 3u);
  BOOST_TEST(events[0].message.at("event") == "a");
  BOOST_TEST(events[1].message.at("event") == "b");
  BOOST_TEST((events[2].kind == RunnerEvent::Kind::kExit));
  BOOST_TEST(events[2].code == 7);
  BOOST_TEST(support::read_file(folder / "stage.log") == "out\nerr\n");
}

BOOST_FIXTURE_TEST_CASE(a_signal_that_ends_a_stage_is_told, Runs) {
  const auto ticket = start("sleep 100");
  BOOST_TEST(runner.pid(ticket) > 0);
  runner.signal(ticket, SIGKILL);
  const auto events = until_exit();
  BOOST_TEST(events.back().signal == SIGKILL);
  BOOST_TEST(!events.back().out_of_memory);
  BOOST_TEST(runner.pid(ticket) == 0);
}

BOOST_FIXTURE_TEST_CASE(what_a_stage_leaves_behind_is_ended_with_it, Runs) {
  for (const std::string session : {"", "setsid "}) {
    start(session +
          "sh -c '(sleep 60; echo late >> late.txt) & echo $! > child.pid; sleep 60' & "
          "while [ ! -s child.pid ]; do sleep 0.01; done; exit 0");
    until_exit();
    const auto pid = static_cast<pid_t>(std::stol(support::read_file(folder / "child.pid")));
    bool gone = false;
    for (int i = 0; i < 200 && !gone; ++i) {
      gone = ::kill(pid, 0) != 0 ||
             support::read_file("/proc/" + std::to_string(pid) + "/stat").find(") Z") != std::string::npos;
      ::usleep(5000);
    }
    BOOST_TEST(gone, session);
    fs::remove(folder / "child.pid");
  }
}

/// Until a process is dead; false after seconds.
bool ends(pid_t pid) {
  for (int i = 0; i < 1000 && process_start(pid) != 0; ++i) ::usleep(5000);
  return process_start(pid) == 0;
}

/// The number that a script writes into a file of the folder.
pid_t pid_in(const fs::path& file) {
  std::string text;
  for (int i = 0; i < 2000 && (text.empty() || text.back() != '\n'); ++i) {
    ::usleep(5000);
    if (fs::exists(file)) text = support::read_file(file);
  }
  return static_cast<pid_t>(std::atol(text.c_str()));
}

/// Children of this process that have ended and were not collected.
std::size_t zombies() {
  std::size_t count = 0;
  for (const auto& thread : fs::directory_iterator("/proc/self/task")) {
    std::istringstream children(support::read_kernel_file(thread.path() / "children", 1u << 20));
    for (std::string pid; children >> pid;)
      count += support::read_kernel_file("/proc/" + pid + "/stat").find(") Z ") != std::string::npos;
  }
  return count;
}

// Such a process has its own session and group, holds nothing of ours, and its parent is gone.
const char* const kDaemon =
    "setsid sh -c 'exec 3>&- </dev/null >/dev/null 2>&1; (sleep 600; :) & echo $$ > $0.pid; while :; do sleep 0.05; "
    "done' ";

BOOST_FIXTURE_TEST_CASE(a_process_that_left_its_group_and_closed_everything_ends_with_its_stage, Runs) {
  start(std::string(kDaemon) + "one & while [ ! -s one.pid ]; do sleep 0.01; done; exit 0");
  until_exit();
  const pid_t pid = pid_in(folder / "one.pid");
  BOOST_REQUIRE(pid > 0);
  BOOST_TEST(ends(pid));
}

BOOST_FIXTURE_TEST_CASE(what_a_stage_started_and_still_uses_lives_until_that_stage_ends, Runs) {
  start("(" + std::string(kDaemon) + "two &) ; while [ ! -e enough ]; do sleep 0.01; done");
  const pid_t pid = pid_in(folder / "two.pid");
  start("exit 0");
  until_exit();
  for (int i = 0; i < 30; ++i) runner.wait(0.05);
  BOOST_TEST(process_start(pid) != 0u);
  support::write_file_atomically(folder / "enough", "", false);
  until_exit();
  BOOST_TEST(ends(pid));
}

BOOST_AUTO_TEST_CASE(what_stages_left_ends_with_the_runner) {
  pid_t pid = 0;
  {
    Runs runs;
    runs.start("(" + std::string(kDaemon) + "three &) ; sleep 600");
    pid = pid_in(runs.folder / "three.pid");
    BOOST_REQUIRE(pid > 0);
  }
  BOOST_TEST(ends(pid));
}

BOOST_FIXTURE_TEST_CASE(orphans_that_end_are_collected, Runs) {
  const std::size_t before = zombies();
  start("i=0; while [ $i -lt 50 ]; do (sh -c 'sleep 0.02' &); i=$((i+1)); done; sleep 3");
  std::size_t most = 0;
  for (int i = 0; i < 50; ++i) {
    runner.wait(0.05);
    most = std::max(most, zombies());
  }
  BOOST_TEST(zombies() == before);
  until_exit();
  BOOST_TEST(zombies() == before);
}

BOOST_AUTO_TEST_CASE(a_stage_is_told_of_the_end_of_its_runner_however_it_comes) {
  const test::TempFolder folder;
  const pid_t starter = ::fork();
  if (starter == 0) {
    LocalRunner runner;
    Launch launch;
    launch.ticket = 1;
    launch.arguments = {"/bin/sh", "-c",
                        "trap 'echo told > told; exit' TERM; echo $$ > pid; while :; do sleep 0.01; done"};
    launch.environment = {"PATH=/usr/bin:/bin"};
    launch.directory = folder.path();
    launch.log = folder / "stage.log";
    runner.start(launch);
    ::pause();
  }
  const pid_t pid = pid_in(folder / "pid");
  ::kill(starter, SIGKILL);
  support::wait_for(starter);
  BOOST_REQUIRE(pid > 0);
  BOOST_TEST(ends(pid));
  BOOST_TEST(fs::exists(folder / "told"));
}

BOOST_FIXTURE_TEST_CASE(a_flood_of_messages_arrives_whole, Runs) {
  start(
      "i=0; while [ $i -lt 20000 ]; do echo \"{\\\"event\\\":\\\"progress\\\",\\\"done\\\":$i}\" >&3; i=$((i+1)); "
      "done");
  const auto events = until_exit();
  BOOST_REQUIRE(events.size() == 20001u);
  BOOST_TEST(events[19999].message.at("done") == 19999);
}

BOOST_FIXTURE_TEST_CASE(a_stage_that_never_stops_talking_lets_others_be_heard, Runs) {
  const auto talker = start("yes '{\"event\":\"note\"}' >&3");
  start("exit 3");
  bool heard = false;
  std::size_t most = 0;
  for (int i = 0; i < 2000 && !heard; ++i) {
    const auto events = runner.wait(0.05);
    most = std::max(most, events.size());
    for (const RunnerEvent& event : events) heard = heard || event.code == 3;
  }
  runner.signal(talker, SIGKILL);
  BOOST_TEST(heard);
  BOOST_TEST(most <= 64u * 1024 / 17 + 2);
}

BOOST_FIXTURE_TEST_CASE(events_that_are_too_long_or_too_deep_are_left_out, Runs) {
  start(
      "{ printf '{\"text\":\"'; head -c 70000 /dev/zero | tr '\\0' x; echo '\"}'; } >&3; { printf '{\"x\":'; head -c "
      "20000 "
      "/dev/zero | tr '\\0' '['; head -c 20000 /dev/zero | tr '\\0' ']'; echo '}'; } >&3; echo '{\"event\":\"a\"}' "
      ">&3");
  const auto events = until_exit();
  BOOST_REQUIRE(events.size() == 3u);
  BOOST_TEST(events[0].message.at("event") == "warn");
  BOOST_TEST(events[1].message.at("event") == "a");
}

BOOST_FIXTURE_TEST_CASE(a_log_that_grows_too_large_keeps_its_ends, Runs) {
  const fs::path log = folder / "stage.log";
  start("echo first; head -c 5000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo; sleep 0.3; echo last");
  for (int i = 0; i < 2000 && fs::file_size(log) < 5'000'000; ++i) runner.wait(0.01);
  ::usleep(100000);
  BOOST_TEST(!cut_stage_log(log, 64 << 20));
  BOOST_TEST(cut_stage_log(log, 4 << 20));
  until_exit();  // and the stage continues to write
  const std::string text = support::read_file(log);
  BOOST_TEST(text.size() < 2u * 1024 * 1024 + 200);
  BOOST_TEST(text.starts_with("first\n"));
  BOOST_TEST(text.ends_with("x\nlast\n"));
  BOOST_TEST(text.find("\n[pe-pipeline: output is left out here, since this log grew above 4.0 MiB]\n") !=
             std::string::npos);
  BOOST_TEST((last_lines(log, 1) == std::vector<std::string>{"last"}));
}

BOOST_FIXTURE_TEST_CASE(many_stages_at_once_each_end_once, Runs) {
  for (int i = 0; i < 40; ++i) start("exit " + std::to_string(i));
  std::vector<int> codes;
  for (const auto& event : until_exit(40)) codes.push_back(event.code);
  std::sort(codes.begin(), codes.end());
  BOOST_REQUIRE(codes.size() == 40u);
  for (int i = 0; i < 40; ++i) BOOST_TEST(codes[static_cast<std::size_t>(i)] == i);
}

BOOST_FIXTURE_TEST_CASE(a_program_that_is_not_there_cannot_start, Runs) {
  Launch launch;
  launch.ticket = 1;
  launch.arguments = {"/nowhere/pe-none"};
  launch.directory = folder.path();
  launch.log = folder / "stage.log";
  BOOST_CHECK_THROW(runner.start(launch), support::IoError);
}

BOOST_AUTO_TEST_CASE(more_stages_than_there_are_descriptors_for_do_not_start) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit few{128, 128};
    ::setrlimit(RLIMIT_NOFILE, &few);
    Runs runs;
    int code = 1;
    try {
      for (int i = 0; i < 20; ++i) runs.start("sleep 100");
    } catch (const support::IoError& error) {
      code = error.system_error() == EMFILE && runs.last == 7 ? 0 : 2;
    }
    ::_exit(code);
  }
  BOOST_TEST(support::wait_for(child).code == 0);
}

BOOST_AUTO_TEST_CASE(a_program_starts_with_very_few_descriptors) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit few{32, 32};
    ::setrlimit(RLIMIT_NOFILE, &few);
    ::_exit(support::capture({"/bin/sh", "-c", "exit 5"}).status.code == 5 ? 0 : 1);
  }
  BOOST_TEST(support::wait_for(child).code == 0);
}

BOOST_AUTO_TEST_CASE(stages_get_an_allow_list_of_the_environment) {
  ::setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", 1);
  ::setenv("UCX_TLS", "rc", 1);
  ::setenv("NCCL_P2P_DISABLE", "1", 1);
  ::setenv("TZ", "UTC", 1);
  ::setenv("LAB_LICENCE", "here", 1);
  const auto named = stage_environment({}, "train", {"LAB_LICENCE", "LANG"});
  BOOST_TEST((std::find(named.begin(), named.end(), "LAB_LICENCE=here") != named.end()));
  BOOST_TEST(std::count_if(named.begin(), named.end(), [](const auto& entry) { return entry.starts_with("LANG="); }) ==
             1);
  ::setenv("OMP_NUM_THREADS", "3", 1);
  ::setenv("HF_HOME", "/hf", 1);
  ::setenv("PE_SECRET", "x", 1);
  ::setenv("LANG", "tr_TR", 1);
  ::setenv("HF_TOKEN", "secret", 1);
  ::setenv("SSL_CERT_FILE", "/etc/own.pem", 1);
  ::setenv("CURL_CA_BUNDLE", "/etc/own.pem", 1);
  ::setenv("NCCL_P2P_DISABLE", "1", 1);
  const auto environment = stage_environment({"0", "2"}, "train");
  const auto of_fetch = stage_environment({}, "fetch");
  BOOST_TEST((std::find(of_fetch.begin(), of_fetch.end(), "HF_TOKEN=secret") != of_fetch.end()));
  const auto has = [&](const std::string& entry) {
    return std::find(environment.begin(), environment.end(), entry) != environment.end();
  };
  BOOST_TEST(has("CUDA_DEVICE_ORDER=PCI_BUS_ID"));
  BOOST_TEST(!has("CUDA_DEVICE_ORDER=FASTEST_FIRST"));
  BOOST_TEST(has("UCX_TLS=rc"));
  BOOST_TEST(has("NCCL_P2P_DISABLE=1"));
  BOOST_TEST(has("TZ=UTC"));
  BOOST_TEST(!has("LAB_LICENCE=here"));
  BOOST_TEST(has("HF_HOME=/hf"));
  BOOST_TEST(!has("HF_TOKEN=secret"));  // for those who fetch alone
  BOOST_TEST(has("SSL_CERT_FILE=/etc/own.pem"));
  BOOST_TEST(has("CURL_CA_BUNDLE=/etc/own.pem"));
  BOOST_TEST(has("NCCL_P2P_DISABLE=1"));  // how machines are wired; a stage leaves out what changes sums
  BOOST_TEST(has("LANG=C.UTF-8"));
  BOOST_TEST(has("CUDA_VISIBLE_DEVICES=0,2"));
  for (const std::string& entry : environment) {
    BOOST_TEST(entry.rfind("OMP_", 0) != 0u);
    BOOST_TEST(entry.rfind("PE_", 0) != 0u);
  }
  for (const char* name : {"OMP_NUM_THREADS", "HF_TOKEN", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "NCCL_P2P_DISABLE"})
    ::unsetenv(name);
}

BOOST_AUTO_TEST_CASE(an_attempt_whose_process_lives_is_an_orphan_until_it_is_gone) {
  test::TempFolder folder;
  const fs::path attempt = folder / "a01";
  fs::create_directories(attempt);
  support::SpawnOptions options;
  options.arguments = {"/bin/sleep", "100"};
  options.new_group = true;
  const pid_t pid = support::spawn(options);
  write_owner(attempt, "run", pid, process_start(pid));
  const auto orphan = find_orphan({attempt});
  BOOST_REQUIRE(orphan.has_value());
  BOOST_TEST(orphan->pid == pid);
  end_orphan(*orphan);
  support::wait_for(pid);
  BOOST_TEST(!find_orphan({attempt}));
}

BOOST_AUTO_TEST_CASE(the_attempt_with_the_newest_file_of_its_own_is_continued) {
  test::TempFolder folder;
  std::vector<fs::path> attempts;
  for (const char* name : {"a01", "a02", "a03"}) {
    attempts.push_back(folder / name);
    fs::create_directories(attempts.back() / "out");
    support::write_file_atomically(attempts.back() / "stage.log", "x", false);
  }
  BOOST_TEST(!find_resumable(attempts));
  fs::create_directories(attempts[0] / "checkpoints");
  support::write_file_atomically(attempts[0] / "checkpoints" / "step-1.h5", "x", false);
  fs::create_directories(attempts[1] / "checkpoints");
  support::write_file_atomically(attempts[1] / "checkpoints" / "step-2.h5.tmp.1.2", "x", false);
  BOOST_TEST(*find_resumable(attempts) == attempts[0]);
  // A file written before the first checkpoint is newer, and no place to continue from.
  support::write_file_atomically(attempts[1] / "scratch.txt", "x", false);
  BOOST_TEST(*find_resumable(attempts) == attempts[0]);
  fs::last_write_time(attempts[0] / "checkpoints" / "step-1.h5",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  BOOST_TEST(*find_resumable(attempts) == attempts[0]);
  support::write_file_atomically(attempts[0] / "metrics.jsonl", "{}\n", false);
  strip_attempt(attempts[0], true);
  BOOST_TEST(fs::exists(attempts[0] / "checkpoints"));
  BOOST_TEST(!fs::exists(attempts[0] / "out"));
  strip_attempt(attempts[0], false);
  BOOST_TEST(!fs::exists(attempts[0] / "checkpoints"));
  BOOST_TEST(fs::exists(attempts[0] / "stage.log"));
  BOOST_TEST(fs::exists(attempts[0] / "metrics.jsonl"));   // of which curves can be drawn again
  BOOST_TEST(!find_resumable({attempts[0]}).has_value());  // and from which no attempt continues
}

BOOST_AUTO_TEST_CASE(kills_for_memory_are_counted_in_the_own_control_group) {
  const test::TempFolder folder;
  fs::create_directories(folder / "job" / "step");
  fs::create_directories(folder / "memory" / "job");
  std::ofstream(folder / "job" / "step" / "memory.events") << "low 0\noom 3\noom_kill 2\noom_group_kill 0\n";
  std::ofstream(folder / "memory" / "job" / "memory.oom_control") << "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n";
  const std::string mount = folder.path().string();
  BOOST_TEST(oom_kills_of("0::/job/step\n", mount) == 2);
  BOOST_TEST(oom_kills_of("4:cpu,memory:/job\n0::/elsewhere\n", mount) == 5);
  BOOST_TEST(oom_kills_of("0::/nowhere\n", mount) == -1);
  BOOST_TEST(oom_kills_in("nr_free_pages 1\noom_kill 7\n") == 7);
  BOOST_TEST(oom_kills_in("") == -1);
}

BOOST_AUTO_TEST_SUITE_END()
