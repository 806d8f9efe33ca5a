/// @file
/// How the tasks of a plan become arrays of jobs. An *element* is a list of tasks that run one after another, or
/// concurrently, in one allocation. An *array* holds elements with the same resources and the same dependencies. The
/// index of an element is equal along a chain, so that it can wait for the element with the same index alone. Nothing
/// here knows of a store or calls Slurm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/file/slurm_policy.h"

namespace pe::pipeline {

struct ArrayNeed {
  enum class Kind {
    kAfterCorr,  ///< Each element waits for the element with its index, which must end well.
    kAfterOk,    ///< These elements, or all, must have ended well.
    kAfterAny,   ///< These elements, or all, however they ended. Each element itself checks whether inputs are there.
  };
  Kind kind = Kind::kAfterOk;
  std::size_t array = 0;              ///< index into the list of arrays; smaller than the own one's
  std::vector<std::int64_t> indices;  ///< empty: the whole array
};

struct JobArray {
  std::string label;    ///< of its stage, or of the first of a lane
  Resources resources;  ///< of one element
  SlurmPolicy policy;
  std::map<std::int64_t, std::vector<std::size_t>> elements;  ///< index → tasks, in the order of the graph
  std::vector<ArrayNeed> needs;
  std::string live_job;     ///< id of an array that is in the queue already; empty for one that is to be sent
  double usual_time_s = 0;  ///< time of its partition for jobs that name none; 0: unknown, or unlimited

  /// Seconds between the signal to stop and the end of an element's time.
  double lead_s() const;
};

/// Element in which an earlier submission of a task waits or runs.
struct LiveElement {
  std::string job;
  std::int64_t index = 0;
};

struct Grouping {
  SlurmPolicies policies;             ///< by stage; none: defaults
  std::string mode = "stage";         ///< stage: an element a task; lane: a chain of tasks
  std::int64_t largest_array = 1001;  ///< elements, and one more than the largest index
  std::map<std::size_t, LiveElement> live;
};

/// Elements and arrays of the tasks of `to_run`; arrays follow the arrays that they wait for, and live ones come first.
std::vector<JobArray> group(const Graph& graph, const std::vector<bool>& to_run, const Grouping& grouping);

/// "0-44,50,52": the short form of indices for sbatch.
std::string index_list(const std::map<std::int64_t, std::vector<std::size_t>>& elements);

}  // namespace pe::pipeline
