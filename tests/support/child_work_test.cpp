#include "support/child_work.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <chrono>
#include <thread>

#include "support/error.h"
#include "support/progress.h"

using namespace pe::support;

BOOST_AUTO_TEST_SUITE(child_work)

namespace {

std::string in_child(const std::function<std::string()>& body) {
  return pe::support::in_child("the work", "try less", body);
}

bool no_child_is_left() { return ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD; }

}  // namespace

BOOST_AUTO_TEST_CASE(what_the_work_gives_comes_back_and_what_it_changes_does_not) {
  int changed = 0;
  const std::string result = in_child([&] {
    changed = 1;
    return std::string(3'000'000, '\0') + "end";
  });
  BOOST_TEST((result == std::string(3'000'000, '\0') + "end"));
  BOOST_TEST(in_child([] { return std::string(); }).empty());
  BOOST_TEST(changed == 0);
  BOOST_TEST(no_child_is_left());
}

BOOST_AUTO_TEST_CASE(what_the_work_throws_is_thrown_here) {
  const auto says = [](int code, const char* part) {
    return [=](const Error& error) {
      return error.exit_code() == code && std::string(error.what()).find(part) != std::string::npos;
    };
  };
  BOOST_CHECK_EXCEPTION(in_child([]() -> std::string { throw ConfigError("too high", {}, "at most 7"); }), ConfigError,
                        says(kExitConfig, "at most 7"));
  BOOST_CHECK_EXCEPTION(in_child([]() -> std::string { throw ArtifactError("bad \xff byte"); }), Error,
                        says(kExitArtifact, "bad "));
  BOOST_CHECK_EXCEPTION(in_child([]() -> std::string { throw std::runtime_error("odd"); }), Error,
                        says(kExitBug, "odd"));
  const auto kill = []() -> std::string {
    ::kill(::getpid(), SIGKILL);
    return "";
  };
  BOOST_CHECK_EXCEPTION(in_child(kill), Error, says(128 + SIGKILL, "the work was ended by signal 9"));
  BOOST_CHECK_EXCEPTION(in_child(kill), Error, says(128 + SIGKILL, "try less"));
  BOOST_CHECK_EXCEPTION(in_child([]() -> std::string { ::_exit(5); }), Error,
                        says(kExitBug, "the work ended with exit code 5"));
  BOOST_CHECK_EXCEPTION(in_child([]() -> std::string { ::_exit(255); }), Error, [](const Error& error) {
    return error.exit_code() == kExitBug && std::string(error.what()).find("try less") == std::string::npos;
  });
  BOOST_TEST(no_child_is_left());
}

BOOST_AUTO_TEST_CASE(a_stop_ends_it_at_once) {
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    request_stop(SIGTERM);
  });
  const auto started = std::chrono::steady_clock::now();
  BOOST_CHECK_THROW(in_child([] {
                      for (;;) ::pause();
                      return std::string();
                    }),
                    StopRequest);
  BOOST_TEST(std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count() < 5);
  later.join();
  request_stop(0);
  BOOST_TEST(no_child_is_left());
}

BOOST_AUTO_TEST_SUITE_END()
