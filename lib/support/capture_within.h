/// @file
/// Programs that may never answer: they have a time limit, after which they are killed with all their children.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/process.h"

namespace pe::support {

struct CaptureLimits {
  double timeout_s = 0;           ///< Above 0: it gets a process group, which is killed when this time is over.
  std::string input = {};         ///< Fed to its standard input.
  std::size_t limit = 64u << 20;  ///< Bytes kept of each stream; a program with a time is killed at the next one.
  std::filesystem::path directory = {};                      ///< Working folder; empty: this process's own.
  std::optional<std::vector<std::string>> environment = {};  ///< "NAME=value"; absent: this process's own
  std::function<bool()> stop = {};  ///< Asked ten times per second; true ends it as its time does. Needs a timeout_s.
};

struct TimedCapture : CapturedOutput {
  bool timed_out = false;  ///< it was killed since it did not end in time
  bool stopped = false;    ///< or since `stop` said so
  bool overlong = false;   ///< it printed more than the limit; it was killed for that where it had a time
};

/// `capture` with a time limit. @throws IoError when the program cannot start.
TimedCapture capture_within(const std::vector<std::string>& arguments, const CaptureLimits& limits);

}  // namespace pe::support
