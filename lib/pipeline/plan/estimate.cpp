#include "pipeline/plan/estimate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "artifact/kind.h"
#include "pipeline/plan/cost.h"
#include "pipeline/plan/key.h"
#include "pipeline/plan/rates.h"
#include "pipeline/plan/simulate.h"
#include "pipeline/store/host.h"
#include "support/cpu.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

/// The step from which a trajectory continues, and its last step.
std::pair<std::int64_t, std::int64_t> steps_to_run(const PlannedTask& planned) {
  const std::int64_t last = last_needed_step(planned);
  std::int64_t first = 0;
  for (const PlannedSnapshot& snapshot : planned.snapshots) {
    if (snapshot.present && snapshot.step < last) first = std::max(first, snapshot.step);
  }
  return {first, last};
}

constexpr double kSnapshotBytes = 12, kEndBytes = 4;  // a parameter: weights and two moments, or weights (fp32)

/// Estimates single tasks; what they share is looked up once.
class Costing {
 public:
  Costing(const Graph& graph, const Plan& plan, const StoreView& store, const DeviceTable* table)
      : graph_(graph), plan_(plan), store_(store), table_(table), keys_(keys_of(graph)) {}

  /// Adds one task that runs to `result`.
  void add(std::size_t i, Estimate& result) {
    const Task& task = graph_.tasks[i];
    const Work work = work_of(i);
    std::optional<Rates::Rate> known = rates_of(task).find(task.id, task.label, work);
    add_bytes(i, work, known, result);
    std::string why = cat("no near run of ", task.stage->program);
    if (known) {
      ++result.sources[known->source];
    } else if (table_ && work.gpus > 0) {
      DeviceTable::Lookup found = table_->find(task, work);
      if (found.source.empty()) {
        why = std::move(found.why_not);
      } else {
        ++result.sources[found.source];
        known = Rates::Rate{found.seconds, 0, {}};
      }
    }
    if (!known) {
      ++result.unknown;
      ++result.unknown_why[cat(task.label, ": ", why)];
      if (const auto other = rates_of(task).find(task.id, task.label, work, /*any_encoding=*/true)) {
        ++result.other_encodings;
        result.other_encodings_s += other->seconds;
      }
      return;
    }
    ++result.known;
    result.seconds[i] = known->seconds;
    result.task_s += known->seconds;
    result.gpu_s += known->seconds * static_cast<double>(task.resources.gpus);
  }

  /// How far past estimates were off, as logarithms.
  std::vector<double> errors() const {
    std::vector<double> all;
    for (const auto& [name, known] : rates_) all.insert(all.end(), known.errors.begin(), known.errors.end());
    return all;
  }

 private:
  Rates& rates_of(const Task& task) {
    auto known = rates_.find(task.stage->name);
    if (known == rates_.end())
      known = rates_.try_emplace(task.stage->name, *task.stage, store_.past_tasks(task.stage->name)).first;
    return known->second;
  }

  Work work_of(std::size_t i) const {
    const Task& task = graph_.tasks[i];
    Work work;
    ModelCosts costs = model_costs(graph_, task);
    work.parameters = costs.parameters;
    work.flops = costs.flops;
    work.encoding = std::move(costs.encoding);
    work.config = keys_->config(task);
    work.gpus = static_cast<std::int64_t>(std::ceil(task.resources.gpus));
    work.device = work.gpus == 0 ? support::cpu_name() : table_ ? table_->device : gpu_name();
    if (task.is_trajectory()) {
      const auto [first, last] = steps_to_run(plan_.tasks[i]);
      if (const double left = trajectory_tokens(task, last - first); left > 0) work.tokens = left;
    } else {
      work.tokens = own_tokens(graph_, task);
    }
    return work;
  }

  /// A checkpoint's bytes follow from its parameters, bytes of other artifacts from earlier ones.
  void add_bytes(std::size_t i, const Work& work, const std::optional<Rates::Rate>& known, Estimate& result) const {
    const Task& task = graph_.tasks[i];
    std::size_t artifacts = 1;
    if (task.is_trajectory()) {
      const auto& snapshots = plan_.tasks[i].snapshots;
      artifacts = static_cast<std::size_t>(std::count_if(snapshots.begin(), snapshots.end(), [](const auto& snapshot) {
        return snapshot.needed && !snapshot.present;
      }));
    }
    const auto count = static_cast<double>(artifacts);
    const auto& outputs = task.stage->outputs;
    const bool model = std::any_of(outputs.begin(), outputs.end(), [](const artifact::OutputRole& output) {
      return output.kind == artifact::Kind::kCheckpoint;
    });
    if (model && work.parameters) {
      const double bytes = count * *work.parameters * (task.is_trajectory() ? kSnapshotBytes : kEndBytes);
      (task.is_trajectory() ? result.snapshots : result.ends) += artifacts;
      result.checkpoint_bytes += bytes;
      result.bytes += bytes;
    } else if (known) {
      result.bytes += known->bytes * count;
    } else {
      ++result.bytes_unknown;
    }
  }

  const Graph& graph_;
  const Plan& plan_;
  const StoreView& store_;
  const DeviceTable* table_;
  std::shared_ptr<KeyMaker> keys_;
  std::map<std::string, Rates> rates_;
};

/// @param label of a snapshot that `producer` makes
double tokens_at(const Task& producer, const std::string& label) {
  std::int64_t step = 0;
  for (const SnapshotPoint& point : producer.snapshots) {
    if (point.label == label) step = point.step;
  }
  return trajectory_tokens(producer, step);
}

}  // namespace

Estimate estimate(const Graph& graph, const Plan& plan, const StoreView& store, const Capacity& capacity,
                  const DeviceTable* table) {
  const std::size_t count = graph.tasks.size();
  Estimate result;
  result.seconds.assign(count, 0);
  std::vector<bool> runs(count);
  Costing costing(graph, plan, store, table);
  for (std::size_t i = 0; i < count; ++i) {
    const PlannedTask& planned = plan.tasks[i];
    if (planned.state != TaskState::kRun) continue;
    // One run serves two tasks that are the same.
    if (planned.same_as && plan.tasks[*planned.same_as].state == TaskState::kRun) continue;
    if (!impossible(graph.tasks[i].resources, capacity).empty()) {
      ++result.too_large;
      continue;
    }
    runs[i] = true;
    costing.add(i, result);
  }
  std::vector<double> errors = costing.errors();
  result.compared = errors.size();
  if (!errors.empty()) result.error = std::exp(middle_of(errors)) - 1;

  // From the end: how long from the start of a task to the end of everything behind it.
  std::vector<double> path(count);
  std::vector<std::size_t> next(count, count);
  for (std::size_t i = count; i-- > 0;) {
    if (!runs[i]) continue;
    path[i] += result.seconds[i];
    for (const Edge& edge : graph.tasks[i].inputs) {
      if (!runs[edge.producer] || path[i] <= path[edge.producer]) continue;
      path[edge.producer] = path[i];
      next[edge.producer] = i;
    }
  }
  const auto longest = std::max_element(path.begin(), path.end());
  if (longest != path.end() && *longest > 0) {
    result.chain_s = *longest;
    for (auto at = static_cast<std::size_t>(longest - path.begin()); at < count; at = next[at])
      result.chain.push_back(at);
  }
  result.wall_s = simulate(graph, runs, result.seconds, path, capacity);
  return result;
}

Sharing sharing(const Graph& graph, const Plan& plan) {
  struct Trunk {
    double horizon = 0, seen = 0;  ///< tokens
  };
  std::map<std::string, Trunk> trunks;  // by trajectory key: a longer budget extends the same one
  std::set<std::string> counted;        // trainings, by plan key
  Sharing total;
  double continued = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const Task& task = graph.tasks[i];
    const PlannedTask& planned = plan.tasks[i];
    if (planned.state == TaskState::kNotNeeded || task.is_trajectory()) continue;
    const auto own = own_tokens(graph, task);
    if (!own) continue;
    for (const Edge& edge : task.inputs) {
      const Task& producer = graph.tasks[edge.producer];
      if (edge.snapshot.empty() || !producer.stage->trajectory) continue;
      Trunk& trunk = trunks[producer.plan_key];
      trunk.horizon = std::max(trunk.horizon,
                               evaluate_expression(producer.stage->trajectory->horizon, *producer.config).value_or(0));
      if (!counted.insert(task.plan_key).second) break;
      continued += *own;
      total.alone_tokens += tokens_at(producer, edge.snapshot) + *own;
      break;  // a training continues from one model
    }
  }
  // A trunk is trained up to the last snapshot that is needed, also where only a report reads it.
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (plan.tasks[i].state == TaskState::kNotNeeded) continue;
    for (const Edge& edge : graph.tasks[i].inputs) {
      const Task& producer = graph.tasks[edge.producer];
      const auto trunk = edge.snapshot.empty() ? trunks.end() : trunks.find(producer.plan_key);
      if (trunk != trunks.end()) trunk->second.seen = std::max(trunk->second.seen, tokens_at(producer, edge.snapshot));
    }
  }
  total.trunks = trunks.size();
  total.shared_tokens = continued;
  for (const auto& [key, trunk] : trunks) {
    total.shared_tokens += trunk.seen;
    total.budget_tokens += trunk.horizon;
  }
  return total;
}

}  // namespace pe::pipeline
