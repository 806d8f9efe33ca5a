/// @file
/// Resources and retries of a task, and the steps at which a training leaves snapshots.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "pipeline/expand/mistakes.h"
#include "pipeline/expand/overrides.h"
#include "pipeline/expand/stages.h"
#include "pipeline/file/graph.h"
#include "pipeline/file/substitution.h"

namespace pe::pipeline {

class Policies {
 public:
  /// Both must outlive it.
  Policies(const OverriddenPipeline& source, const Stages& stages);

  /// Fills resources, retry, checkpoint and the settings of the file for all tasks. Instances that agree on the axes
  /// that these use share them.
  void give(const Stage& stage, const Scope& scope, Task& task, Mistakes& mistakes);

  /// {"every_s", "keep"} as `checkpoint` says; empty when nothing does.
  Json checkpoint_of(const Stage& stage, const Scope& scope, support::Diagnostics& diagnostics) const;

 private:
  struct Policy {
    Resources resources;
    support::SharedValue<RetryPolicy> retry;
    support::SharedValue<Json> checkpoint;
  };
  struct OfStage {
    std::vector<std::string> axes;                      ///< names that its policy uses
    std::unordered_map<std::string, Policy> by_labels;  ///< of these axes
  };
  Policy policy_of(const Stage& stage, const Scope& scope, Mistakes& mistakes) const;

  const OverriddenPipeline& source_;
  std::vector<OfStage> stages_;  ///< by index
};

/// The labels that the scope has for some axes, as one text.
std::string labels_of(const std::vector<std::string>& axes, const Scope& scope);

/// Fills the snapshots of a trajectory's task from its config.
void place_snapshots(const Stage& stage, const Scope& scope, Task& task, Mistakes& mistakes);

/// Gives a task with a budget the horizon of the training that it branches off. @param tasks the existing tasks.
void give_horizon(const Stage& stage, const std::vector<Task>& tasks, Task& task, Mistakes& mistakes);

}  // namespace pe::pipeline
