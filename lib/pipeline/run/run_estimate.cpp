#include "pipeline/run/run_estimate.h"

#include <algorithm>
#include <optional>

namespace pe::pipeline {

namespace {

/// Duration of the task when its plan last ran.
std::optional<double> seconds_before(const Task& task, const Store& store) {
  const auto key = store.hint(task.plan_key);
  if (!key) return std::nullopt;
  std::optional<double> seconds;
  const auto look = [&](std::int64_t step) {
    if (const auto result = store.find({*key, step})) seconds = std::max(seconds.value_or(0), result->wall_s);
  };
  if (!task.is_trajectory()) look(-1);
  for (const SnapshotPoint& point : task.snapshots) look(point.step);
  return seconds;
}

}  // namespace

RunEstimate::RunEstimate(const Graph& graph, const Store& store, const std::vector<double>& given)
    : graph_(graph), given_(given), seconds_(graph.tasks.size(), -1) {
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const auto before = seconds_before(graph.tasks[i], store);
    if (!before) continue;
    seconds_[i] = *before;
    add(i, *before);
  }
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (i < given.size() && given[i] > 0) seconds_[i] = given[i];
    if (seconds_[i] >= 0) continue;
    const auto found = by_label_.find(graph.tasks[i].label);
    seconds_[i] = found == by_label_.end() ? 1.0 : found->second.mean_s();
  }
}

void RunEstimate::add(std::size_t task, double seconds) {
  MeanSeconds& known = by_label_[graph_.tasks[task].label];
  known.sum_s += seconds;
  ++known.count;
}

double RunEstimate::expected_s(std::size_t task) const {
  if (task < given_.size() && given_[task] > 0) return given_[task];
  const auto label = by_label_.find(graph_.tasks[task].label);
  return label == by_label_.end() ? -1 : label->second.mean_s();
}

double RunEstimate::left_s(const TaskStates& states, const std::map<std::uint64_t, ActiveAttempt>& running,
                           double now_s, const Capacity& capacity) const {
  double cpu_s = 0, gpu_s = 0, path_s = 0;
  for (const auto& [label, remaining] : states.remaining()) {
    if (remaining.tasks == 0) continue;
    const auto known = by_label_.find(label);
    if (known == by_label_.end()) return -1;
    cpu_s += known->second.mean_s() * remaining.cpus;
    gpu_s += known->second.mean_s() * remaining.gpus;
  }
  // Waiting tasks come after a task that runs or is ready, and their paths are shorter.
  if (const auto first = states.ready().first()) path_s = states.ready().remaining(*first);
  for (const auto& [ticket, attempt] : running) {
    const auto known = by_label_.find(graph_.tasks[attempt.task].label);
    if (known == by_label_.end()) continue;
    const double past = std::min(now_s - attempt.started_s, known->second.mean_s());
    cpu_s -= past * static_cast<double>(graph_.tasks[attempt.task].resources.cpus);
    gpu_s -= past * graph_.tasks[attempt.task].resources.gpus;
    path_s = std::max(path_s, states.ready().remaining(attempt.task) - past);
  }
  return std::max({path_s, cpu_s / static_cast<double>(std::max<std::int64_t>(1, capacity.cpus)),
                   capacity.gpus.empty() ? 0.0 : gpu_s / static_cast<double>(capacity.gpus.size())});
}

}  // namespace pe::pipeline
