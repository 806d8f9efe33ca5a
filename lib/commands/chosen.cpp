#include "commands/chosen.h"

#include <algorithm>
#include <set>

#include "commands/run_choice.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::commands {

using support::cat;
using support::quote;

Scope scope_of(const cli::CommandLine& given, bool may_make) {
  cli::CommandLine line = given;
  Scope scope;
  scope.store = store_path_for(line, may_make);
  scope.file = line.file;
  scope.words = line.words;
  if (scope.file.empty()) refuse_reading_flags(line, hint_to_name_a_file(line));
  return scope;
}

std::vector<std::size_t> chosen_results(const cli::CommandLine& line, const Scope& scope, const pipeline::Store& store,
                                        const pipeline::Inventory& inventory) {
  if (scope.file.empty()) return pipeline::select_results(inventory, scope.words);
  ExpandedPipeline loaded = load(line, scope.file, scope.store);
  pipeline::use_results_of_other_cpus(loaded.graph, pipeline::StoreReader(store));
  const std::vector<bool> selected = pipeline::select(loaded.graph, scope.words);
  const pipeline::Plan plan = pipeline::make_plan(loaded.graph, pipeline::StoreReader(store));
  std::set<std::size_t> chosen;
  const auto take = [&](const pipeline::ResultKey& key) {
    const auto found = inventory.by_key.find(pipeline::PackedKey(key));
    if (found != inventory.by_key.end()) chosen.insert(found->second);
  };
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    if (!selected[i] || plan.tasks[i].task_key.empty()) continue;
    if (plan.tasks[i].snapshots.empty()) take({plan.tasks[i].task_key, -1});
    for (const auto& snapshot : plan.tasks[i].snapshots) take({plan.tasks[i].task_key, snapshot.step});
  }
  return {chosen.begin(), chosen.end()};
}

std::vector<std::size_t> results_of_pipeline(const cli::CommandLine& line, const Scope& scope,
                                             const pipeline::Store& store, const pipeline::Inventory& inventory,
                                             const std::vector<std::size_t>& found, const std::string& id) {
  const std::string name = pipeline_in(store, scope.file);
  std::vector<std::size_t> made;
  for (const std::size_t i : found) {
    if (inventory.results[i].pipeline == name) made.push_back(i);
  }
  if (!made.empty()) return made;
  const auto at = id.rfind('@');
  const Scope task{scope.file, scope.store, {id.substr(0, at)}};
  std::vector<std::size_t> reused = chosen_results(line, task, store, inventory);
  const auto step = at == std::string::npos ? std::nullopt : support::parse_integer(id.substr(at + 1));
  if (step) std::erase_if(reused, [&](std::size_t i) { return inventory.results[i].key.step != *step; });
  if (!reused.empty()) return reused;
  const pipeline::StoredResult& newest =
      inventory.results[*std::max_element(found.begin(), found.end(), [&](std::size_t a, std::size_t b) {
        return inventory.results[a].ended < inventory.results[b].ended;
      })];
  throw support::ConfigError(
      cat("pipeline ", quote(name), " has no result of ", quote(id), "; ",
          newest.pipeline.empty() ? "another" : quote(newest.pipeline), " has ", newest.key.short_name()),
      {scope.file, 0, 0, "", 1});
}

}  // namespace pe::commands
