#include <string>
#include <vector>

#include "commands/display.h"
#include "commands/stop_signals.h"
#include "commands/submissions.h"
#include "pipeline/orchestrator.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::commands {

int element_command(const std::vector<std::string>& arguments) {
  const auto index = arguments.size() == 5 ? support::parse_integer(arguments[4]) : std::nullopt;
  if (!index)
    throw support::ConfigError("__element is for jobs of a submission", {"pe-pipeline", 0, 0, "", 1},
                               "`pe-pipeline submit` writes the scripts that call it");
  pipeline::ElementOrder order;
  order.store = arguments[0];
  order.run = arguments[1];
  order.token = arguments[2];
  order.digest = arguments[3];
  order.index = *index;
  cli::CommandLine line;
  line.progress = "plain";
  const auto display = make_display(line);
  StopSignals signals;
  pipeline::Slurm slurm;
  pipeline::LocalRunner runner;
  const int code = pipeline::run_element(order, slurm, runner, *display, StopSignals::level);
  display->finish();
  return code;
}

}  // namespace pe::commands
