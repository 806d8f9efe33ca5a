#include "pipeline/plan/estimate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "pipeline/plan/cost.h"
#include "pipeline/plan/ready_queue.h"
#include "pipeline/plan/slots.h"

namespace pe::pipeline {

namespace {

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Tokens that an earlier task trained on, or, of a trajectory, those of a step: from what its key holds of its config;
/// nothing where that is not enough.
std::optional<double> past_tokens(const StageDescription& stage, const PastTask& task) {
  if (task.config.empty()) return std::nullopt;
  const Json config = Json::from_cbor(task.config.begin(), task.config.end(), true, false);
  std::optional<double> tokens;
  if (task.key.is_snapshot()) {
    tokens = tokens_per_step(stage, config);
  } else if (const auto cost = stage.costs.find("tokens"); cost != stage.costs.end() && cost->is_string()) {
    tokens = evaluate_expression(cost->get<std::string>(), config);
  }
  return tokens && *tokens > 0 ? tokens : std::nullopt;
}

/// The step from which a trajectory goes on, and the one it goes to.
std::pair<std::int64_t, std::int64_t> steps_to_run(const PlannedTask& planned) {
  const std::int64_t last = last_needed_step(planned);
  std::int64_t first = 0;
  for (const PlannedSnapshot& snapshot : planned.snapshots) {
    if (snapshot.present && snapshot.step < last) first = std::max(first, snapshot.step);
  }
  return {first, last};
}

/// What one kind of stage took before.
class Rates {
 public:
  Rates(const StageDescription& stage, const std::vector<PastTask>& past) {
    // Earlier tasks share their configs; a trajectory may have that of a task.
    std::map<std::pair<const char*, bool>, std::optional<double>> tokens_of;
    for (const PastTask& task : past) {
      if (task.expected_s > 0 && task.wall_s > 0 && !task.key.is_snapshot()) {
        errors.push_back(std::abs(std::log(task.wall_s / task.expected_s)));
      }
      if (task.wall_s <= 0) continue;
      Sample sample;
      sample.seconds = task.wall_s;
      sample.bytes = static_cast<double>(task.bytes);
      if (task.key.is_snapshot() && task.key.step == 0) continue;
      const auto [it, fresh] = tokens_of.try_emplace({task.config.data(), task.key.is_snapshot()});
      if (fresh) it->second = past_tokens(stage, task);
      sample.tokens = it->second;
      if (sample.tokens && task.key.is_snapshot()) *sample.tokens *= static_cast<double>(task.key.step);
      by_name_[std::string(task.id)].push_back(sample);
      const std::string_view label = task.id.substr(0, task.id.find('['));
      if (label != task.id) by_name_[std::string(label) + "["].push_back(sample);
      by_name_[""].push_back(sample);
    }
  }

  struct Cost {
    double seconds = 0, bytes = 0;
  };
  /// @param tokens  that it trains on, where that is known
  std::optional<Cost> find(const Task& task, std::optional<double> tokens, std::size_t artifacts) {
    for (const std::string& name : {task.id, task.label + "[", std::string()}) {
      const auto found = by_name_.find(name);
      if (found == by_name_.end()) continue;
      auto& cached = medians_[name];
      if (!cached) cached = summarise(found->second);
      Cost cost;
      cost.seconds = tokens && cached->per_token ? *cached->per_token * *tokens : cached->seconds;
      cost.bytes = cached->bytes * static_cast<double>(artifacts);
      return cost;
    }
    return std::nullopt;
  }

  std::vector<double> errors;   ///< of past estimates, as logarithms

 private:
  struct Sample {
    double seconds = 0, bytes = 0;
    std::optional<double> tokens;
  };
  struct Summary {
    double seconds = 0, bytes = 0;
    std::optional<double> per_token;
  };

  static Summary summarise(const std::vector<Sample>& samples) {
    std::vector<double> seconds, bytes, rates;
    for (const Sample& sample : samples) {
      seconds.push_back(sample.seconds);
      bytes.push_back(sample.bytes);
      if (sample.tokens) rates.push_back(sample.seconds / *sample.tokens);
    }
    Summary summary{median(seconds), median(bytes), std::nullopt};
    if (!rates.empty()) summary.per_token = median(rates);
    return summary;
  }

  std::map<std::string, std::vector<Sample>> by_name_;   ///< by id, by label and '[', and all under ""
  std::map<std::string, std::optional<Summary>> medians_;
};

/// Runs the clock over the tasks that run, as the scheduler would start them.
double simulate(const Graph& graph, const std::vector<bool>& runs, const std::vector<double>& seconds,
                const std::vector<double>& path, const Capacity& capacity) {
  const std::size_t count = graph.tasks.size();
  std::vector<std::size_t> waits(count);
  std::vector<std::vector<std::size_t>> readers(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!runs[i]) continue;
    std::size_t last = count;
    for (const Edge& edge : graph.tasks[i].inputs) {
      if (edge.producer == last || !runs[edge.producer]) continue;
      last = edge.producer;
      readers[edge.producer].push_back(i);
      ++waits[i];
    }
  }
  // Tasks that ask for the same stand in one line, so that a full machine is seen at a glance.
  using Demand = std::tuple<std::int64_t, std::int64_t, double, std::vector<std::string>>;
  std::map<Demand, std::set<std::pair<double, std::size_t>>> ready;
  const auto add = [&](std::size_t i) {
    const Resources& demand = graph.tasks[i].resources;
    ready[{demand.cpus, demand.mem_bytes, demand.gpus, demand.pools}].emplace(-path[i], i);
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (runs[i] && waits[i] == 0) add(i);
  }
  Slots slots(capacity);
  struct Running {
    double end;
    std::size_t task;
    Slot slot;
    bool operator>(const Running& other) const { return std::tie(end, task) > std::tie(other.end, other.task); }
  };
  std::priority_queue<Running, std::vector<Running>, std::greater<>> running;
  double now = 0;
  for (;;) {
    std::set<Demand> full;
    for (;;) {
      // The best of all lines that still fit.
      auto best = ready.end();
      for (auto line = ready.begin(); line != ready.end(); ++line) {
        if (line->second.empty() || full.count(line->first)) continue;
        if (best == ready.end() || *line->second.begin() < *best->second.begin()) best = line;
      }
      if (best == ready.end()) break;
      const std::size_t task = best->second.begin()->second;
      auto slot = slots.take(graph.tasks[task].resources);
      if (!slot) {
        full.insert(best->first);
        continue;
      }
      best->second.erase(best->second.begin());
      running.push({now + seconds[task], task, std::move(*slot)});
    }
    if (running.empty()) return now;
    const Running done = running.top();
    running.pop();
    now = done.end;
    slots.give_back(done.slot);
    for (const std::size_t reader : readers[done.task]) {
      if (--waits[reader] == 0) add(reader);
    }
  }
}

}  // namespace

Estimate estimate(const Graph& graph, const Plan& plan, const StoreView& store, const Capacity& capacity) {
  const std::size_t count = graph.tasks.size();
  Estimate result;
  result.seconds.assign(count, 0);
  std::vector<bool> runs(count);
  std::map<std::string, Rates> rates;
  for (std::size_t i = 0; i < count; ++i) {
    const Task& task = graph.tasks[i];
    const PlannedTask& planned = plan.tasks[i];
    if (planned.state != TaskState::kRun) continue;
    // One run serves two tasks that are the same.
    if (planned.same_as && plan.tasks[*planned.same_as].state == TaskState::kRun) continue;
    if (!impossible(task.resources, capacity).empty()) {
      ++result.too_large;
      continue;
    }
    runs[i] = true;
    auto known = rates.find(task.stage->name);
    if (known == rates.end()) {
      known = rates.try_emplace(task.stage->name, *task.stage, store.past_tasks(task.stage->name)).first;
    }
    std::optional<double> tokens;
    std::size_t artifacts = 1;
    if (task.is_trajectory()) {
      const auto [first, last] = steps_to_run(planned);
      if (const double left = trajectory_tokens(task, last - first); left > 0) tokens = left;
      artifacts = 0;
      for (const PlannedSnapshot& snapshot : planned.snapshots) artifacts += snapshot.needed && !snapshot.present;
    } else {
      tokens = own_tokens(graph, task);
    }
    const auto cost = known->second.find(task, tokens, artifacts);
    if (!cost) {
      ++result.unknown;
      continue;
    }
    ++result.known;
    result.seconds[i] = cost->seconds;
    result.task_s += cost->seconds;
    result.gpu_s += cost->seconds * static_cast<double>(task.resources.gpus);
    result.bytes += cost->bytes;
  }
  std::vector<double> errors;
  for (const auto& [name, known] : rates) errors.insert(errors.end(), known.errors.begin(), known.errors.end());
  result.compared = errors.size();
  if (!errors.empty()) result.error = std::exp(median(errors)) - 1;

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
    for (auto at = static_cast<std::size_t>(longest - path.begin()); at < count; at = next[at]) result.chain.push_back(at);
  }
  result.wall_s = simulate(graph, runs, result.seconds, path, capacity);
  return result;
}

Sharing sharing(const Graph& graph, const Plan& plan) {
  struct Trunk {
    double horizon = 0, seen = 0;   ///< tokens
  };
  std::map<std::string, Trunk> trunks;   // by trajectory key: a longer budget extends the same one
  std::set<std::string> counted;         // trainings, by plan key
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
      std::int64_t step = 0;
      for (const SnapshotPoint& point : producer.snapshots) {
        if (point.label == edge.snapshot) step = point.step;
      }
      Trunk& trunk = trunks[producer.plan_key];
      trunk.horizon = std::max(
          trunk.horizon, evaluate_expression(producer.stage->trajectory->horizon, *producer.config).value_or(0));
      trunk.seen = std::max(trunk.seen, trajectory_tokens(producer, step));
      if (!counted.insert(task.plan_key).second) break;
      continued += *own;
      total.alone_tokens += trajectory_tokens(producer, step) + *own;
      break;   // a training goes on from one model
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
