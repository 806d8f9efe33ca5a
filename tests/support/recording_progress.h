/// @file
/// Progress that keeps its messages, for tests of text for people.
#pragma once

#include <string>

#include "support/progress.h"

namespace pe::test {

struct RecordingProgress : support::Progress {
  std::string lines;  ///< notes and warnings in order, the latter with "warning: " in front
  void note(std::string_view line) override { lines.append(line).append("\n"); }
  void warn(std::string_view line) override { lines.append("warning: ").append(line).append("\n"); }
  void advance(std::string_view, std::int64_t, std::int64_t, const Json&) override {}
  void event(const Json&) override {}
  bool has(std::string_view part) const { return lines.find(part) != std::string::npos; }
};

}  // namespace pe::test
