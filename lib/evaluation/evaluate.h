/// @file
/// An evaluation: every selected task of one model, into one eval-table.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "artifact/workspace.h"
#include "evaluation/settings.h"
#include "evaluation/task.h"
#include "model/compute.h"
#include "support/config.h"

namespace pe::evaluation {

/// The group `eval`: which tasks, what they share, and a group of options for each task.
struct EvalGroup {
  std::vector<std::string> tasks = {"perplexity"};
  Settings settings;
  std::vector<std::shared_ptr<Task>> all;   ///< in the order of evaluation::tasks()

  EvalGroup();
  void describe(support::FieldVisitor& v);
};

struct EvaluateConfig {
  EvalGroup eval;
  model::ComputeConfig compute;

  void describe(support::FieldVisitor& v);
};

/// Runs the selected tasks in the order of their names. `results` keeps what they find.
void run_tasks(const EvalGroup& group, Scorer& scorer, const TextCodec& text, const DocumentSource& documents,
               Results& results, support::Progress& progress);

/// The body of pe-evaluate: inputs `model` (checkpoint) and `data` (token-shards), output `scores` (eval-table).
/// @throws ArtifactError when the model was trained on another tokenizer; Stopped when a stop was requested.
void evaluate(const EvaluateConfig& config, artifact::Workspace& workspace);

}  // namespace pe::evaluation
