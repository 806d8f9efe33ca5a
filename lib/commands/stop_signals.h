/// @file
/// Signals that ask a run to stop.
#pragma once

#include <signal.h>

#include <array>

namespace pe::commands {

/// Listens to signals while it lives. Each Ctrl-C counts, and the second kills stages. TERM, USR1 and HUP ask to save
/// and stop however often they come: clusters repeat them, and a terminal that closes is no reason to lose work.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  /// As `run` asks for it.
  static int level();

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  std::array<struct sigaction, 4> before_{};
};

}  // namespace pe::commands
