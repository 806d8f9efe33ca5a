#include "support/progress.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace pe::support {

namespace {

class Silent : public Progress {
 public:
  void note(std::string_view) override {}
  void warn(std::string_view) override {}
  void advance(std::string_view, std::int64_t, std::int64_t, const Json&) override {}
  void event(const Json&) override {}
};

std::atomic<int> requested_signal{0};

void on_signal(int signal) { requested_signal.store(signal, std::memory_order_relaxed); }

}  // namespace

Progress& silent_progress() {
  static Silent silent;
  return silent;
}

bool stop_requested() { return requested_signal.load(std::memory_order_relaxed) != 0; }

void request_stop(int signal) { requested_signal.store(signal, std::memory_order_relaxed); }

void install_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) ::sigaction(signal, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

void stop_when_closed(int fd) {
  std::thread([fd] {
    // POLLERR on the writing end of a pipe says that no reader is left.
    pollfd polled{fd, 0, 0};
    while (true) {
      polled.revents = 0;
      if (::poll(&polled, 1, -1) > 0 && (polled.revents & (POLLERR | POLLHUP | POLLNVAL))) break;
    }
    request_stop(SIGTERM);
  }).detach();
}

}  // namespace pe::support
