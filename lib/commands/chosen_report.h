/// @file
/// The one report that a command means, in a store or as a folder.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "pipeline/orchestrator.h"
#include "support/json.h"

namespace pe::commands {

/// Whether the record has a report among its outputs. Reports of others' stages therefore count.
bool is_report(const pipeline::Record& record);

/// The one report among these results: of several results of one task the newest. @throws ConfigError for none, or two
/// tasks' reports
pipeline::Record report_of(const pipeline::Store& store, const pipeline::Inventory& inventory,
                           const std::vector<std::size_t>& chosen);

/// The numbers and texts of a report (`report.json`); nothing for another artifact.
std::optional<Json> report_json(const std::filesystem::path& folder);

}  // namespace pe::commands
