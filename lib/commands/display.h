/// @file
/// How a run is shown while it goes on: a panel on a terminal, plain lines elsewhere, JSON lines, or nothing.
#pragma once

#include <memory>
#include <string>

#include "cli/command_line.h"
#include "pipeline/run.h"

namespace pe::commands {

/// A display; `finish` takes the panel away.
class Display : public pipeline::RunListener {
 public:
  virtual void finish() {}
};

/// What `--progress` asks for: "auto" is a panel where standard error is a terminal, else plain lines.
std::unique_ptr<Display> make_display(const cli::CommandLine& line);

/// A failure as people read it: id, class, the last lines of its log, the log's path, the command that runs it alone.
std::string render_failure(const pipeline::Graph& graph, const pipeline::RunEvent& event, bool color);

/// "step 120/400  loss 4.2  tokens_per_second 31k" of a stage's latest progress message.
std::string render_progress(const Json& progress);

}  // namespace pe::commands
