// pe-pipeline timeline: how a run went, in time, from its journal alone.

#include "commands/commands.h"
#include "commands/run_choice.h"
#include "commands/session.h"
#include "commands/timeline.h"
#include "pipeline/orchestrator.h"
#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::commands {

using support::cat;

fs::path write_timeline(const pipeline::Timeline& timeline, const fs::path& folder) {
  const fs::path target =
      folder.empty() ? fs::path(timeline.root) / "reports" / timeline.pipeline / timeline.run_id : folder;
  support::make_folders(target);
  support::write_file_atomically(target / "timeline.html", render_timeline(timeline), false);
  return target / "timeline.html";
}

int timeline_command(const cli::CommandLine& given) {
  cli::CommandLine line = given;
  const pipeline::Store store = open_for_reading(store_path_for(line));
  const std::string run = take_run(store, line);
  const pipeline::Timeline timeline = pipeline::read_timeline(store, run);
  if (line.json) {
    print_json(pipeline::to_json(timeline));
    return pipeline::kRunDone;
  }
  if (line.out == "-") {
    print(render_timeline(timeline));
    return pipeline::kRunDone;
  }
  if (timeline.damaged_lines) say(cat(counted(timeline.damaged_lines, "damaged journal line"), " left out\n"));
  print(cat("timeline: ", short_path(write_timeline(timeline, line.out)), "\n"));
  return pipeline::kRunDone;
}

}  // namespace pe::commands
