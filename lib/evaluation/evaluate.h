/// @file
/// An evaluation: every selected task of one model, into one eval-table.
#pragma once

#include "artifact/workspace.h"
#include "evaluation/eval_group.h"
#include "model/compute.h"
#include "support/config.h"

namespace pe::evaluation {

struct EvaluateConfig {
  EvalGroup eval;
  model::ComputeConfig compute;

  void describe(support::FieldVisitor& v);
};

/// The body of pe-evaluate. Its inputs are `model` (checkpoint), `data` (token-shards) and, to compare patterns of
/// attention or mark key tokens, `reference` (checkpoint). Its output is `scores` (eval-table).
/// @throws ArtifactError when the model was trained on another tokenizer; Stopped when a stop was requested.
void evaluate(const EvaluateConfig& config, artifact::Workspace& workspace);

}  // namespace pe::evaluation
