#include "commands/stop_signals.h"

#include <algorithm>
#include <atomic>

namespace pe::commands {

namespace {

std::atomic<int> interrupts{0};
std::atomic<bool> asked_to_stop{false};

void on_interrupt(int) { interrupts.fetch_add(1, std::memory_order_relaxed); }
void on_request(int) { asked_to_stop.store(true, std::memory_order_relaxed); }

}  // namespace

StopSignals::StopSignals() {
  interrupts = 0;
  asked_to_stop = false;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = kSignals[i] == SIGINT ? on_interrupt : on_request;
    sigemptyset(&action.sa_mask);
    ::sigaction(kSignals[i], &action, &before_[i]);
  }
  ::signal(SIGPIPE, SIG_IGN);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    // A cluster repeats its request; one that arrives during the last lines of the program must not kill it.
    if (asked_to_stop && kSignals[i] != SIGINT) before_[i].sa_handler = SIG_IGN;
    ::sigaction(kSignals[i], &before_[i], nullptr);
  }
}

int StopSignals::level() { return std::max(interrupts.load(), asked_to_stop.load() ? 1 : 0); }

}  // namespace pe::commands
