#include "pipeline/plan/other_cpus.h"

#include <algorithm>

#include "pipeline/plan/key.h"

namespace pe::pipeline {

namespace {

bool has_result(const PlannedTask& task) {
  return task.key_is_exact && (task.result || std::any_of(task.snapshots.begin(), task.snapshots.end(),
                                                          [](const auto& snapshot) { return snapshot.result; }));
}

}  // namespace

std::map<std::string, std::size_t> use_results_of_other_cpus(Graph& graph, const StoreView& store,
                                                             const std::vector<bool>& fixed) {
  std::map<std::string, std::size_t> used;
  const std::shared_ptr<KeyMaker> keys = keys_of(graph);
  Plan plan;
  plan.tasks.resize(graph.tasks.size());
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    Task& task = graph.tasks[i];
    const auto has_result_with = [&](const std::string& isa) {
      if (!isa.empty()) task.config.edit()["compute"]["isa"] = isa;
      task.plan_key = keys->plan_key(graph, task);
      plan.tasks[i] = {};
      look_up(graph, store, *keys, plan, i);
      return has_result(plan.tasks[i]);
    };
    if (has_result_with("") || !task.isa_is_auto || (!fixed.empty() && fixed[i])) continue;
    const auto own = task.config;
    const std::string here = own->at("compute").at("isa");
    for (const char* isa : {"amx", "avx512", "avx2", "portable"}) {
      if (here == isa || !has_result_with(isa)) continue;
      ++used[isa];
      break;
    }
    if (has_result(plan.tasks[i])) continue;
    task.config = own;
    has_result_with("");
  }
  return used;
}

}  // namespace pe::pipeline
