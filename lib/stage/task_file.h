/// @file
/// A stage's work order, from `task.json` or from flags.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "artifact/workspace.h"
#include "cli/stage_flags.h"
#include "stage/stage_main.h"
#include "support/json.h"

namespace pe::stage {

struct WorkOrder {
  Json config;                           ///< Complete, typed by the schema.
  std::optional<int> version;            ///< Result version that the task was planned for; of a task by hand: none.
  std::map<std::string, int> revisions;  ///< The planned revisions, by name (StageInfo::revisions).
  std::string build;  ///< Under `code: build`, the program digest that it was planned for (support/program.h).
  artifact::Workspace workspace;  ///< without progress
  bool removes_work = false;      ///< the work folder is our own choice, and goes when the stage is done
  std::optional<int> events_fd;
};

/// The numbers of its revisions, by name.
std::map<std::string, int> revisions_of(const StageInfo& info);

/// Reads `task.json`; every role, kind and config value is checked against what the stage declares.
/// @throws ConfigError, and as `check_paths` (stage/paths.h)
WorkOrder read_task(const std::filesystem::path& file, const StageInfo& info, const support::Schema& schema);

/// The same from a person's flags. Outputs and the work folder default to the current folder; such a work folder goes
/// when the stage is done.
WorkOrder order_from_flags(const cli::StageFlags& flags, const StageInfo& info, const support::Schema& schema);

}  // namespace pe::stage
