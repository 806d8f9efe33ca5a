/// @file
/// What a model's encoding costs: milliseconds of the encoding, of attention and of the whole forward pass, and peak memory.
/// Measured, so it is the output of a stage of its own that is declared volatile, and never part of an evaluation's tables.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "artifact/workspace.h"
#include "model/compute.h"
#include "support/config.h"

namespace pe::evaluation {

struct MeasureGroup {
  std::vector<std::int64_t> lengths = {4096};
  std::int64_t batch = 1;
  std::optional<std::int64_t> warmup;        ///< 5 on a CPU, 10 on a GPU
  std::optional<std::int64_t> repetitions;   ///< 20 and 50
  bool training_step = false;

  void describe(support::FieldVisitor& v);
};

struct MeasureConfig {
  MeasureGroup measure;
  model::ComputeConfig compute;

  void describe(support::FieldVisitor& v);
};

/// The body of pe-measure: input `model` (checkpoint), output `cost` (eval-table with the table `cost`).
///
/// Components: `attention`, the attention of all layers without any encoding; `encode`, what the encoding adds to it, from
/// adding to the embeddings on; `forward`, a forward pass of the model; `forward_none`, that of the same model without an
/// encoding; with `training_step` the same two of forward and backward passes. Measurements of one component with and
/// without the encoding take turns, and `encode` is the difference of neighbours, so it may come out below zero.
///
/// Paths: `unfused`, the definition of the encoding, a range of query rows at a time, for everybody: what the encoding costs
/// by itself; `best`, the cheapest exact route of each: what a user pays.
void measure(const MeasureConfig& config, artifact::Workspace& workspace);

}  // namespace pe::evaluation
