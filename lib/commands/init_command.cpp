// pe-pipeline init: a separate folder with the configs and a first pipeline.
#include <system_error>

#include "commands/commands.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/text.h"

namespace pe::commands {

using support::cat;
using support::ConfigError;
using support::quote;

int init_command(const cli::CommandLine& line) {
  const support::Place place{"pe-pipeline init", 0, 0, "", 1};
  if (line.words.size() != 1)
    throw ConfigError(cat("expected one folder, found ", line.words.size(), " words"), place,
                      "as in: pe-pipeline init study");
  const fs::path shipped = pipeline::shipped_folder(), folder = line.words.front();
  if (shipped.empty()) {
    throw ConfigError("the configs that come with pe-pipeline are missing from its installation", place,
                      "install it whole (`meson install`), or use its clone");
  }
  for (const char* name : {"configs", "pipelines", ".gitignore"}) {
    if (support::is_there(folder / name))
      throw ConfigError(cat(quote((folder / name).string()), " is there already; nothing was written"), place,
                        "name a folder that is new, or empty");
  }
  support::make_folders(folder / "pipelines");
  std::error_code error;
  fs::copy(shipped / "configs", folder / "configs", fs::copy_options::recursive, error);
  if (error) throw support::IoError(cat("cannot write ", (folder / "configs").string(), ": ", error.message()));
  const auto text = support::read_file(shipped / "pipelines/quickstart.yml");
  support::write_file_atomically(folder / "pipelines/quickstart.yml", text, false);
  support::write_file_atomically(folder / ".gitignore", "/store/\n/out/\n/reports/\n", false);
  print(cat("made ", short_path(folder), ": configs/, pipelines/quickstart.yml, .gitignore; next:\n  pe-pipeline plan ",
            (folder / "pipelines/quickstart.yml").string(), "\n"));
  return pipeline::kRunDone;
}

}  // namespace pe::commands
