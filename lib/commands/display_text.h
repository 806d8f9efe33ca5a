/// @file
/// The words of the displays of a run.
#pragma once

#include <string>

#include "cli/color.h"
#include "pipeline/orchestrator.h"

namespace pe::commands {

/// Of the task that an event is about; "run" for the run itself.
const std::string& id_of(const pipeline::RunState& state, const pipeline::RunEvent& event);

/// "12/40 there  3 running  25 waiting  about 4m left".
std::string counts_line(const pipeline::RunState& state, const cli::Style& style);

/// One line for an event that people want to read; empty for the others.
std::string event_line(const pipeline::RunEvent& event, const pipeline::RunState& state, const cli::Style& style);

/// A stage's latest progress message, in parts.
struct ProgressText {
  std::string work;     ///< "step 120/400 30%"
  double share = -1;    ///< 0 to 1; -1: unknown
  std::string speed;    ///< "31k tokens/s"
  std::string figures;  ///< "loss 4.2"
};
ProgressText progress_text(const Json& progress);

/// The parts on one line; control characters made visible.
std::string render_progress(const Json& progress);

/// A failure as people read it: id, class, the last lines of its log, the log's path, the command that runs it alone.
std::string render_failure(const pipeline::Graph& graph, const pipeline::RunEvent& event, bool color);

}  // namespace pe::commands
