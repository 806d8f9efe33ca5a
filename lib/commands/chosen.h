/// @file
/// Which results of a store a command means, with or without a pipeline file.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "pipeline/orchestrator.h"

namespace pe::commands {

/// The store that a command reads, and the words that are left when a pipeline file in front has been taken off.
struct Scope {
  std::string file;  ///< pipeline file, or empty
  std::filesystem::path store;
  std::vector<std::string> words;
};
/// @throws ConfigError when --store names no store, unless the command `may_make` one
Scope scope_of(const cli::CommandLine& line, bool may_make = false);

/// With a pipeline file: what it asks for now and the store has, of the selected tasks (selection.h), also by other
/// CPUs. Without: results by key, id or pattern (inventory.h). Indices into the inventory, ascending.
std::vector<std::size_t> chosen_results(const cli::CommandLine& line, const Scope& scope, const pipeline::Store& store,
                                        const pipeline::Inventory& inventory);

/// Narrows the results that an id names to the pipeline in `scope.file`: the results that its runs made. Where it made
/// none, the results that its tasks of that id reuse.
/// @throws ConfigError when there are none either; it names a result of another pipeline.
std::vector<std::size_t> results_of_pipeline(const cli::CommandLine& line, const Scope& scope,
                                             const pipeline::Store& store, const pipeline::Inventory& inventory,
                                             const std::vector<std::size_t>& found, const std::string& id);

}  // namespace pe::commands
