/// @file
/// Progress reports of library code. The code reports; the program prints: JSON lines on an events descriptor for
/// `pe-pipeline`, one redrawn line on a terminal, plain lines elsewhere.
#pragma once

#include <cstdint>
#include <string_view>

#include "support/json.h"

namespace pe::support {

class Progress {
 public:
  virtual ~Progress() = default;

  /// A line for people, now: "tokenizer: 2,048 pieces, trained in 1.2 s".
  virtual void note(std::string_view line) = 0;
  /// Something worth a person's attention that does not stop the work.
  virtual void warn(std::string_view line) = 0;
  /// How far the work is; a total of 0 is unknown. `detail` holds named figures: {"loss": 4.2, "tokens_per_second":
  /// 31000}. Cheap; may be called often, shown at most a few times per second.
  virtual void advance(std::string_view what, std::int64_t done, std::int64_t total, const Json& detail = {}) = 0;
  /// An event for programs: {"event": "snapshot", "step": 100, …}. Kept in order, never dropped.
  virtual void event(const Json& event) = 0;
};

/// Swallows everything; for tests and library calls without a watcher.
Progress& silent_progress();

/// Set by SIGTERM, SIGINT and SIGUSR1 once `install_stop_signals` ran. Long loops look at it, save, and leave with
/// exit code 75 (they can resume) or 130.
bool stop_requested();
void install_stop_signals();
void request_stop(int signal);  ///< as if the signal had come; for tests

/// Also stops (as SIGTERM would) when the other end of `fd` closes: an orphan must not continue to write.
void stop_when_closed(int fd);

/// Thrown by a loop that stopped on request. `resumable` decides between exit 75 and 130.
class StopRequest : public std::exception {
 public:
  explicit StopRequest(bool resumable) : resumable_(resumable) {}
  const char* what() const noexcept override { return "stopped on request"; }
  bool resumable() const { return resumable_; }

 private:
  bool resumable_;
};

}  // namespace pe::support
