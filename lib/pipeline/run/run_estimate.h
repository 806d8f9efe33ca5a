/// @file
/// Expected durations of the tasks of a run, as far as known: from the plan's estimates, from earlier times of the same
/// tasks, and from times of tasks of the same stage, also in this run.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/plan/capacity.h"
#include "pipeline/run/active_attempt.h"
#include "pipeline/run/task_states.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

class RunEstimate {
 public:
  /// @param given  seconds by task, 0 where unknown; may be shorter than the graph
  RunEstimate(const Graph& graph, const Store& store, const std::vector<double>& given);
  /// By task, a guess where nothing is known: for the order of starts.
  const std::vector<double>& seconds() const { return seconds_; }
  /// -1: unknown.
  double expected_s(std::size_t task) const;
  /// A task of this run took so long.
  void add(std::size_t task, double seconds);
  /// Seconds to the end of the run; -1 when some stage never ran. No schedule is faster than its longest path, nor than
  /// all work spread over all slots.
  double left_s(const TaskStates& states, const std::map<std::uint64_t, ActiveAttempt>& running, double now_s,
                const Capacity& capacity) const;

 private:
  struct MeanSeconds {
    double sum_s = 0;
    int count = 0;
    double mean_s() const { return sum_s / count; }
  };
  const Graph& graph_;
  const std::vector<double>& given_;
  std::vector<double> seconds_;
  std::map<std::string, MeanSeconds> by_label_;
};

}  // namespace pe::pipeline
