/// @file
/// Starts stages and reports what becomes of them. `run` drives one of these; tests give it a fake.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "support/json.h"

namespace pe::pipeline {

/// One attempt of one task, ready to go.
struct Launch {
  std::uint64_t ticket = 0;              ///< Chosen by the caller, unique within a run.
  std::vector<std::string> arguments;    ///< [0] is the executable; never seen by a shell.
  std::vector<std::string> environment;  ///< "NAME=value", complete.
  std::filesystem::path directory;       ///< working folder
  std::filesystem::path log;             ///< both output streams are appended here
  /// The number of the descriptor on which the stage writes its events.
  static constexpr int kEventsDescriptor = 3;
};

struct RunnerEvent {
  enum class Kind { kMessage, kExit };
  std::uint64_t ticket = 0;
  Kind kind = Kind::kMessage;
  Json message;                ///< one line of events_fd; lines that are no JSON object never arrive
  int code = 0;                ///< of an exit
  int signal = 0;              ///< that ended it, or 0
  bool out_of_memory = false;  ///< the kernel says that it killed for memory
  double wall_s = 0;
  double cpu_s = 0;                 ///< user and system
  std::int64_t peak_rss_bytes = 0;  ///< at least the size of this process when it started the stage: Linux counts it
};

class Runner {
 public:
  virtual ~Runner() = default;
  /// @throws IoError when the process cannot be started; its system_error() is EMFILE for want of
  /// descriptors, of which other stages free some when they end.
  virtual void start(const Launch& launch) = 0;
  /// Waits until something happened or `timeout_s` passed (negative: for ever) and returns it. All messages of a stage
  /// come before its exit. A signal to this process ends the wait early.
  virtual std::vector<RunnerEvent> wait(double timeout_s) = 0;
  /// Sends a signal to a stage and to the processes it started.
  virtual void signal(std::uint64_t ticket, int signal) = 0;
  /// Process id of a running stage, or 0 when there is none to name.
  virtual std::int64_t pid(std::uint64_t ticket) const {
    (void)ticket;
    return 0;
  }
  /// Ends a `wait` early; may be called on another thread.
  virtual void wake() {}
  /// Seconds on a clock that only goes forward; a fake turns it.
  virtual double now() const = 0;
};

}  // namespace pe::pipeline
