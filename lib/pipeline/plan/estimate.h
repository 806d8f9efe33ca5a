/// @file
/// Cost of a plan, before it runs: from earlier times of such tasks here, laid out on the available slots.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/plan/capacity.h"
#include "pipeline/plan/device_table.h"
#include "pipeline/plan/plan.h"

namespace pe::pipeline {

struct Estimate {
  std::vector<double> seconds;                 ///< By task: expected time; 0 where it does not run or nothing is known.
  std::size_t known = 0;                       ///< Tasks that would run and have an estimate.
  std::size_t unknown = 0;                     ///< Tasks without a near measurement.
  std::map<std::string, std::size_t> sources;  ///< Measurement → tasks that it stands for.
  std::map<std::string, std::size_t> unknown_why;  ///< "trunk: encoding fox was not measured on …" → tasks.
  std::size_t other_encodings = 0;                 ///< Of `unknown`: tasks that ran with another encoding.
  double other_encodings_s = 0;                    ///< Their time if they are as fast; in no sum.
  std::size_t too_large = 0;                       ///< Tasks that the slots can never hold; in no sum.
  double task_s = 0;                               ///< Sum over tasks.
  double gpu_s = 0;                                ///< Sum over tasks of seconds x GPUs.
  double wall_s = 0;                    ///< On the slots, longest remaining path first, as `run` starts them.
  double bytes = 0;                     ///< Of the outputs.
  double checkpoint_bytes = 0;          ///< Checkpoints' part: from numbers of parameters.
  std::size_t snapshots = 0, ends = 0;  ///< Checkpoints in that: with AdamW's moments, and without.
  std::size_t bytes_unknown = 0;        ///< Tasks whose outputs' bytes are not known; in no sum.
  double chain_s = 0;                   ///< The longest chain: no number of slots is faster.
  std::vector<std::size_t> chain;       ///< Its tasks, first to last.
  std::size_t compared = 0;             ///< Finished tasks that had been estimated.
  double error = 0;                     ///< Half of these were off by no more than this factor minus one (0.12: 12 %).
};

/// Times scale with training tokens and FLOPs where the stage's description gives them, along a trajectory too. They
/// come from the same instance where it ran before, else from its stage label, else from its kind of stage. The device
/// must be the same and the model or config near (rates.h). Tasks with a GPU without such a run follow `table`, where
/// one is given; then `capacity` belongs to a machine with such GPUs. All others are unknown.
Estimate estimate(const Graph& graph, const Plan& plan, const StoreView& store, const Capacity& capacity,
                  const DeviceTable* table = nullptr);

/// Savings of sharing a trajectory: a trunk is trained once, and models continue from its snapshots.
struct Sharing {
  std::size_t trunks = 0;    ///< distinct trajectories that something continues from
  double budget_tokens = 0;  ///< sum of their horizons
  double shared_tokens = 0;  ///< Trunks to their last snapshot, and the trainings that continue them.
  double alone_tokens = 0;   ///< every model trained by itself from the start
};
Sharing sharing(const Graph& graph, const Plan& plan);

}  // namespace pe::pipeline
