/// @file
/// Why a task will run or was reused, to the leaf: which field, input or version differs from which earlier result. It
/// compares the documents that are stored with every result.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/plan/plan.h"

namespace pe::pipeline {

/// One difference between the present task and an earlier result.
struct Cause {
  ReasonKind kind = ReasonKind::kNew;
  std::string what;           ///< "train.lr", "input data", "result version of pe-train"
  std::string before, after;  ///< as people read them; may be empty
  support::Place place;       ///< where the new value was written, if it was

  /// "train.lr 3e-4 -> 1e-3".
  std::string str() const;
};

struct Explanation {
  std::size_t task = 0;
  std::vector<Cause> causes;         ///< root causes first
  std::string against;               ///< task key of the earlier result, or empty
  std::string against_id;            ///< instance id it had
  std::string against_run;           ///< run that made it, or empty
  std::vector<std::size_t> follows;  ///< producers that will run
};

/// Results to compare tasks with, instead of the newest earlier result of the same instance, of this pipeline where it
/// has one.
using Against = std::map<std::size_t, PastTask>;

/// Explains several; common look-ups are made once.
std::vector<Explanation> explain_all(const Graph& graph, const Plan& plan, const StoreView& store,
                                     const std::vector<std::size_t>& tasks, Against against = {});

/// Tasks that run for the same reasons, most first: "168 tasks, 3 causes".
struct CauseGroup {
  std::string stage;          ///< stage label
  std::vector<Cause> causes;  ///< with the places of the first task
  std::vector<std::size_t> tasks;
};

/// Groups everything in `plan` that is neither reused nor unneeded.
std::vector<CauseGroup> group_causes(const Graph& graph, const Plan& plan, const StoreView& store);

}  // namespace pe::pipeline
