#include "commands/chosen.h"

#include <algorithm>
#include <set>

#include "commands/session.h"
#include "pipeline/orchestrator.h"

namespace pe::commands {

Scope scope_of(const cli::CommandLine& given) {
  cli::CommandLine line = given;
  Scope scope;
  scope.store = store_path_for(line);
  if (line.words.size() != given.words.size()) scope.file = given.words.front();
  scope.words = line.words;
  return scope;
}

std::vector<std::size_t> chosen_results(const cli::CommandLine& line, const Scope& scope, const pipeline::Store& store,
                                        const pipeline::Inventory& inventory) {
  if (scope.file.empty()) return pipeline::select_results(inventory, scope.words);
  const ExpandedPipeline loaded = load(line, scope.file, scope.store);
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

}  // namespace pe::commands
