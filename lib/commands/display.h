/// @file
/// How a run is shown while it is in progress: a panel on a terminal, plain lines elsewhere, JSON lines, or nothing.
#pragma once

#include <memory>

#include "cli/command_line.h"
#include "pipeline/orchestrator.h"

namespace pe::commands {

/// A display; `finish` takes the panel away.
class Display : public pipeline::RunListener {
 public:
  virtual void finish() {}
};

/// The display of `--progress`: "auto" is a panel where standard error is a terminal, else plain lines.
std::unique_ptr<Display> make_display(const cli::CommandLine& line);

}  // namespace pe::commands
