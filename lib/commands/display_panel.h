/// @file
/// The panel of a run on a terminal: counts, running tasks with their speed and remaining time, and causes that hold up
/// the rest. At most the window's height; lines that stay (failures, results) scroll past above it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/color.h"
#include "commands/display.h"

namespace pe::commands {

/// Remaining time of running tasks: from their own pace since they were first seen, else from the earlier times of such
/// tasks.
class TaskClock {
 public:
  /// Notes how far everything is; called at every tick.
  void look(const pipeline::RunState& state);
  /// Seconds; -1: unknown.
  double left_s(const pipeline::RunState& state, const pipeline::RunningTask& task) const;

 private:
  struct ProgressMark {
    double done = 0, time_s = 0;  // when first seen
    double last_done = 0, last_s = 0;
  };
  std::map<std::pair<std::size_t, int>, ProgressMark> seen_;  // task, attempt
};

/// "step 120/400 30%  31k tokens/s  loss 4.2  1m 10s  2m 44s left". In few columns the progress is cut, and not the
/// times; 0: no limit.
std::string running_text(const pipeline::RunState& state, const pipeline::RunningTask& task, double left_s,
                         int columns);

/// The lines of the panel for a window of that size, most important first.
std::vector<std::string> panel_lines(const pipeline::RunState& state, const TaskClock& clock,
                                     const std::string& trouble, const cli::Style& style, int columns, int rows);

std::unique_ptr<Display> make_panel_display(cli::Style style, int fd);

}  // namespace pe::commands
