/// @file
/// Costs of a model's encoding: milliseconds of the encoding, of attention and of the whole forward pass, and peak
/// memory. Measured, so it is the output of a separate stage that is declared volatile, and never part of an
/// evaluation's tables.
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
  std::optional<std::int64_t> warmup;       ///< 5 on a CPU, 10 on a GPU
  std::optional<std::int64_t> repetitions;  ///< 20 and 50
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
/// Components: `attention` is the attention of all layers without any encoding. `encode` is the additional cost of the
/// encoding, from adding to the embeddings on. `forward` is a forward pass of the model, `forward_none` the same
/// without an encoding; with `training_step` both are also measured with backward passes. Measurements of one component
/// with and without the encoding alternate, and `encode` is the difference of neighbours, so it may be below zero.
///
/// Paths: `unfused` is the definition of every encoding, a range of query rows at a time: the cost of the encoding
/// alone. `best` is the cheapest exact route of each: the cost for a user.
void measure(const MeasureConfig& config, artifact::Workspace& workspace);

}  // namespace pe::evaluation
