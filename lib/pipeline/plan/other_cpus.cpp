#include "pipeline/plan/other_cpus.h"

#include <algorithm>

#include "pipeline/plan/key.h"

namespace pe::pipeline {

namespace {

bool has_result(const PlannedTask& task) {
  return task.key_is_exact && (task.result || std::any_of(task.snapshots.begin(), task.snapshots.end(),
                                                          [](const auto& snapshot) { return snapshot.result; }));
}

/// Chooses sets for tasks in the order of the graph, so that the producers of a task have theirs.
class Choosing {
 public:
  Choosing(Graph& graph, const StoreView& store, const std::vector<bool>& fixed)
      : graph_(graph), store_(store), fixed_(fixed), keys_(keys_of(graph)), readers_(graph.tasks.size()) {
    plan_.tasks.resize(graph.tasks.size());
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      for (const Edge& edge : graph.tasks[i].inputs) {
        if (is_free(i)) readers_[edge.producer].push_back(i);
      }
    }
  }

  /// @returns the set of another CPU that task i got; empty: it keeps its set
  std::string choose(std::size_t i) {
    const bool own = has_result_with(i, "");
    if (!is_free(i)) return "";
    const auto config = graph_.tasks[i].config;
    std::size_t most = own ? readers_with_results(i) : 0;
    std::string best;
    for (const char* isa : kSets) {
      if (own && most == readers_[i].size()) break;
      if (config->at("compute").at("isa") == isa || !has_result_with(i, isa)) continue;
      const std::size_t count = readers_with_results(i);
      if ((best.empty() && !own) || count > most) {
        best = isa;
        most = count;
      }
    }
    graph_.tasks[i].config = config;
    has_result_with(i, best);
    return best;
  }

 private:
  static constexpr const char* kSets[] = {"amx", "avx512", "avx2", "portable"};

  bool is_free(std::size_t i) const { return graph_.tasks[i].isa_is_auto && (fixed_.empty() || !fixed_[i]); }

  /// @param isa empty: the set that it has
  bool has_result_with(std::size_t i, const std::string& isa) {
    Task& task = graph_.tasks[i];
    if (!isa.empty()) task.config.edit()["compute"]["isa"] = isa;
    task.plan_key = keys_->plan_key(graph_, task);
    plan_.tasks[i] = {};
    look_up(graph_, store_, *keys_, plan_, i);
    return has_result(plan_.tasks[i]);
  }

  /// Number of readers of task i that have a result for any set, with the present set of task i.
  std::size_t readers_with_results(std::size_t i) {
    std::size_t count = 0;
    for (const std::size_t reader : readers_[i]) {
      const auto config = graph_.tasks[reader].config;
      bool found = has_result_with(reader, "");
      for (const char* isa : kSets) found = found || has_result_with(reader, isa);
      graph_.tasks[reader].config = config;
      count += found ? 1 : 0;
    }
    return count;
  }

  Graph& graph_;
  const StoreView& store_;
  const std::vector<bool>& fixed_;
  std::shared_ptr<KeyMaker> keys_;
  std::vector<std::vector<std::size_t>> readers_;
  Plan plan_;
};

}  // namespace

std::map<std::string, std::size_t> use_results_of_other_cpus(Graph& graph, const StoreView& store,
                                                             const std::vector<bool>& fixed) {
  std::map<std::string, std::size_t> used;
  Choosing choosing(graph, store, fixed);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (const std::string isa = choosing.choose(i); !isa.empty()) ++used[isa];
  }
  return used;
}

}  // namespace pe::pipeline
