/// @file
/// `budgets` of a stage: one training, and from it a branch that ends at each of several shares of its horizon. Without
/// the key a user would write two stages. They would have an axis, a snapshot of the trunk for each of its labels, the
/// reference to it, and the values for the end and the length of the branch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/yaml.h"

namespace pe::pipeline {

struct PipelineFile;

inline constexpr const char* kBudgetAxis = "budget";

struct Budgets {
  struct One {
    std::string label;  ///< "b25"
    double end = 1;     ///< of the trunk's horizon
    support::Mark mark;
  };
  std::vector<One> all;
  double share = 0.2;  ///< of `end` that the branch takes
  support::Mark mark;
};

/// From `[1/8, 1/4, 1/2, 1]` or `{ends: [0.25, 1], share: 0.1}`. Mistakes go to `diagnostics`.
std::optional<Budgets> parse_budgets(const support::Node& node, support::Diagnostics& diagnostics);

/// Writes axes, references and snapshots into the stages of the file, for every stage that has budgets.
void spread_budgets(PipelineFile& file, support::Diagnostics& diagnostics);

}  // namespace pe::pipeline
