#include "pipeline/run/run_estimate.h"

#include <algorithm>
#include <limits>

#include "pipeline/plan/simulate.h"

namespace pe::pipeline {

RunEstimate::RunEstimate(const Graph& graph, const Plan& plan, const std::vector<double>& planned)
    : graph_(graph), plan_(plan), planned_(planned) {}

std::vector<double> RunEstimate::seconds() const {
  std::vector<double> seconds(graph_.tasks.size(), 1);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (const double known = planned_s(i); known > 0) seconds[i] = known;
  }
  return seconds;
}

void RunEstimate::add(std::size_t task, double seconds) {
  Ended& ended = ended_[graph_.tasks[task].label];
  ended.sum_s += seconds;
  ++ended.count;
  if (planned_s(task) <= 0) return;
  ended.planned_s += planned_s(task);
  ended.planned_took_s += seconds;
}

double RunEstimate::expected_s(std::size_t task) const {
  const auto found = ended_.find(graph_.tasks[task].label);
  const double planned = planned_s(task);
  if (found == ended_.end()) return planned > 0 ? planned : -1;
  const Ended& ended = found->second;
  if (planned <= 0) return ended.sum_s / ended.count;
  // The machine may be slower or faster than when the plan's times were measured.
  return ended.planned_s > 0 ? planned * ended.planned_took_s / ended.planned_s : planned;
}

double RunEstimate::left_s(const TaskStates& states, const std::map<std::uint64_t, ActiveAttempt>& running,
                           double now_s, const Capacity& capacity) const {
  const std::size_t count = graph_.tasks.size();
  std::vector<bool> runs(count);
  std::vector<double> seconds(count), path(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_unfinished(states.phase(i)) || !states.is_own(i)) continue;
    // The run of another task serves this one.
    if (const auto same = plan_.tasks[i].same_as; same && is_unfinished(states.phase(*same))) continue;
    seconds[i] = expected_s(i);
    if (seconds[i] < 0 && plan_.tasks[i].state == TaskState::kLikelyReuse) seconds[i] = 0;
    if (seconds[i] < 0) return -1;
    runs[i] = true;
    path[i] = states.ready().remaining(i);
  }
  for (const auto& [ticket, attempt] : running) {
    seconds[attempt.task] = std::max(0.0, seconds[attempt.task] - (now_s - attempt.started_s));
    path[attempt.task] = std::numeric_limits<double>::infinity();
  }
  return simulate(graph_, runs, seconds, path, capacity);
}

}  // namespace pe::pipeline
