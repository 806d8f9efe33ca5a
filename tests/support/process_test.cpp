#include "support/process.h"

#include <signal.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <fstream>

#include "support/bound_child.h"
#include "support/capture_within.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/program.h"
#include "support/temp_folder.h"

using namespace pe::support;

BOOST_AUTO_TEST_SUITE(process)

BOOST_AUTO_TEST_CASE(arguments_reach_the_child_as_they_are) {
  const std::string nasty = "a b'c\"$(touch x)\n;`id`";
  const CapturedOutput result = capture({"printf", "%s", nasty});
  BOOST_TEST(result.status.code == 0);
  BOOST_TEST(result.out == nasty);
}

BOOST_AUTO_TEST_CASE(much_input_and_output_pass_at_once) {
  const std::string input(3'000'000, 'y');
  BOOST_TEST(capture({"cat"}, input).out == input);
}

BOOST_AUTO_TEST_CASE(exit_codes_and_signals_are_told_apart) {
  BOOST_TEST(capture({"sh", "-c", "exit 7"}).status.code == 7);
  const ExitStatus killed = capture({"sh", "-c", "kill -9 $$"}).status;
  BOOST_TEST(killed.signal == 9);
  BOOST_TEST(killed.code == 137);
}

BOOST_AUTO_TEST_CASE(a_program_that_does_not_end_in_time_is_killed_with_what_it_started) {
  const pe::test::TempFolder folder;
  const std::string pid = (folder / "pid").string();
  // Its child holds the pipes too, and it reads nothing of a large input.
  const TimedCapture result = capture_within({"sh", "-c", "sleep 600 & echo $! >\"$1\"; echo begun; wait", "sh", pid},
                                             {.timeout_s = 0.3, .input = std::string(1'000'000, 'x')});
  BOOST_TEST(result.timed_out);
  BOOST_TEST(result.status.signal == 9);
  BOOST_TEST(result.out == "begun\n");
  const int child = std::stoi(read_file(pid));
  // Dead, or dead and not yet collected by its new parent.
  for (int i = 0; i < 500 && ::kill(child, 0) == 0; ++i) {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string number, name, state;
    if (stat >> number >> name >> state && state == "Z") break;
    ::usleep(10'000);
    BOOST_REQUIRE(i < 499);
  }
  const TimedCapture closed = capture_within({"sh", "-c", "exec >&- 2>&- ; sleep 600"}, {.timeout_s = 0.3});
  BOOST_TEST(closed.timed_out);
  const TimedCapture quick = capture_within({"cat"}, {.timeout_s = 60, .input = "in time"});
  BOOST_TEST(!quick.timed_out);
  BOOST_TEST(quick.out == "in time");
}

BOOST_AUTO_TEST_CASE(a_program_that_prints_without_end_is_killed_long_before_its_time_is_over) {
  for (const char* script : {"exec yes", "exec yes >&2", "yes; sleep 600"}) {
    const auto begin = std::chrono::steady_clock::now();
    const TimedCapture result = capture_within({"sh", "-c", script}, {.timeout_s = 300, .limit = 1u << 20});
    BOOST_TEST(result.overlong);
    BOOST_TEST(!result.timed_out);
    BOOST_TEST(result.status.signal == 9);
    BOOST_TEST(std::max(result.out.size(), result.err.size()) == 1u << 20);
    BOOST_TEST((std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)));
  }
  BOOST_TEST(!capture_within({"printf", "12345"}, {.timeout_s = 60, .limit = 5}).overlong);
  // Without a time the rest is read and dropped.
  const CapturedOutput whole = capture({"sh", "-c", "head -c 100000 /dev/zero"}, {}, 1000);
  BOOST_TEST(whole.status.code == 0);
  BOOST_TEST(whole.out.size() == 1000u);
}

BOOST_AUTO_TEST_CASE(a_program_that_cannot_become_one_is_named_with_the_reason) {
  const pe::test::TempFolder folder;
  write_file_atomically(folder / "garbage", "no program", false);
  std::filesystem::permissions(folder / "garbage", std::filesystem::perms::owner_all);
  BOOST_CHECK_EXCEPTION(capture({(folder / "garbage").string()}), IoError, [](const IoError& error) {
    return error.system_error() == ENOEXEC && std::string(error.what()).find("garbage") != std::string::npos;
  });
  SpawnOptions options;
  options.arguments = {"true"};
  options.directory = folder / "nowhere";
  BOOST_CHECK_EXCEPTION(spawn(options), IoError, [](const IoError& error) { return error.system_error() == ENOENT; });
}

BOOST_AUTO_TEST_CASE(a_child_that_is_to_be_told_hears_of_our_end_however_it_comes) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    const pe::test::TempFolder folder;
    const pid_t starter = ::fork();
    if (starter == 0) {
      SpawnOptions options;
      options.arguments = {"/bin/sh", "-c",
                           "trap 'echo told > told; exit' TERM; echo $$ > pid; while :; do sleep 0.01; done"};
      options.directory = folder.path();
      options.new_group = true;
      spawn_bound(options, signal);
      ::pause();
    }
    std::string text;
    for (int i = 0; i < 2000 && (text.empty() || text.back() != '\n'); ++i) {
      ::usleep(5000);
      if (is_there(folder / "pid")) text = read_file(folder / "pid");
    }
    ::kill(starter, SIGKILL);
    BOOST_TEST(wait_for(starter).signal == SIGKILL);
    const auto child = static_cast<pid_t>(std::stol(text));
    bool gone = false;
    for (int i = 0; i < 2000 && !gone; ++i) {
      const std::filesystem::path stat = "/proc/" + std::to_string(child) + "/stat";
      gone = ::kill(child, 0) != 0 || read_file(stat).find(") Z") != std::string::npos;
      ::usleep(5000);
    }
    BOOST_TEST(gone);
    BOOST_TEST(is_there(folder / "told") == (signal == SIGTERM));
    ::kill(child, SIGKILL);
  }
}

BOOST_AUTO_TEST_CASE(a_parent_that_ignores_ends_of_children_leaves_ours_their_exit_codes) {
  ::signal(SIGCHLD, SIG_IGN);
  begin_program();
  BOOST_TEST(capture({"/bin/sh", "-c", "exit 3"}).status.code == 3);
  BOOST_TEST(capture_within({"/bin/sh", "-c", "exit 3"}, {.timeout_s = 60}).status.code == 3);
}

BOOST_AUTO_TEST_CASE(a_program_that_is_not_there_is_named) {
  BOOST_CHECK_EXCEPTION(capture({"no-such-program"}), IoError, [](const IoError& error) {
    return std::string(error.what()).find("no-such-program") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_child_sees_only_the_environment_and_descriptors_that_it_is_given) {
  SpawnOptions options;
  pe::test::TempFolder folder;
  const auto out = folder / "out";
  { std::ofstream create(out); }
  FILE* file = std::fopen(out.c_str(), "w");
  options.arguments = {"/bin/sh", "-c", "env; ls /proc/self/fd | tr '\\n' ' '; echo >&5 five"};
  options.environment = {{"PATH=/usr/bin:/bin", "ONLY=this"}};
  options.stdout_fd = fileno(file);
  options.descriptors = {{fileno(file), 5}};
  BOOST_TEST(wait_for(spawn(options)).code == 0);
  std::fclose(file);
  const std::string text = read_file(out);
  BOOST_TEST(text.find("ONLY=this") != std::string::npos);
  BOOST_TEST(text.find("HOME=") == std::string::npos);
  BOOST_TEST(text.find("five") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(this_program_has_a_build_id) {
  BOOST_TEST(elf_build_id(own_executable()).size() == 40u);
  BOOST_TEST(elf_build_id("/etc/passwd").empty());
}

BOOST_AUTO_TEST_CASE(a_program_that_a_rebuild_replaced_has_its_name_without_a_mark) {
  const pe::test::TempFolder folder;
  write_file_atomically(folder / "mine (deleted)", "a program with an odd name", false);
  BOOST_TEST(without_deleted_mark(folder / "mine (deleted)") == folder / "mine (deleted)");
  BOOST_TEST(without_deleted_mark(folder / "pe-pipeline (deleted)") == folder / "pe-pipeline");
  BOOST_TEST(without_deleted_mark(folder / "pe-pipeline") == folder / "pe-pipeline");
}

BOOST_AUTO_TEST_CASE(what_is_waited_for_ends_with_whoever_waits) {
  const pe::test::TempFolder folder;
  const auto note = folder / "pid";
  const pid_t waiter = ::fork();
  if (waiter == 0) {
    capture_within({"/bin/sh", "-c", "echo $$ > pid; exec sleep 600"}, {.timeout_s = 500, .directory = folder.path()});
    ::_exit(0);
  }
  std::string text;
  for (int i = 0; i < 2000 && (text.empty() || text.back() != '\n'); ++i) {
    ::usleep(5000);
    if (is_there(note)) text = read_file(note);
  }
  ::kill(waiter, SIGINT);
  BOOST_TEST(wait_for(waiter).signal == SIGINT);
  const auto child = static_cast<pid_t>(std::stol(text));
  bool gone = false;
  for (int i = 0; i < 400 && !gone; ++i) {
    gone =
        ::kill(child, 0) != 0 || read_file("/proc/" + std::to_string(child) + "/stat").find(") Z") != std::string::npos;
    ::usleep(5000);
  }
  BOOST_TEST(gone);
}

BOOST_AUTO_TEST_SUITE_END()
