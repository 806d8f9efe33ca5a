/// @file
/// Expected durations of the tasks of a run. The plan's estimates are corrected by the times of tasks of the same stage
/// that ended in this run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pipeline/plan/capacity.h"
#include "pipeline/plan/plan.h"
#include "pipeline/run/active_attempt.h"
#include "pipeline/run/task_states.h"

namespace pe::pipeline {

class RunEstimate {
 public:
  /// @param planned  seconds by task, 0 where unknown; may be shorter than the graph
  RunEstimate(const Graph& graph, const Plan& plan, const std::vector<double>& planned);
  /// By task, a guess where nothing is known: for the order of starts.
  std::vector<double> seconds() const;
  /// -1: unknown.
  double expected_s(std::size_t task) const;
  /// A task of this run took so long.
  void add(std::size_t task, double seconds);
  /// Seconds to the end of the run on these slots; -1 when a stage has tasks of unknown duration.
  double left_s(const TaskStates& states, const std::map<std::uint64_t, ActiveAttempt>& running, double now_s,
                const Capacity& capacity) const;

 private:
  /// Tasks of a stage that ended in this run.
  struct Ended {
    double sum_s = 0;                          ///< of all
    double planned_s = 0, planned_took_s = 0;  ///< of those with a planned time
    int count = 0;
  };
  double planned_s(std::size_t task) const { return task < planned_.size() ? planned_[task] : 0; }

  const Graph& graph_;
  const Plan& plan_;
  const std::vector<double>& planned_;
  std::map<std::string, Ended> ended_;  ///< by stage label
};

}  // namespace pe::pipeline
