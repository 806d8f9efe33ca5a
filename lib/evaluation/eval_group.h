/// @file
/// The evaluations in a config, run on any scorer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "evaluation/settings.h"
#include "evaluation/task.h"
#include "model/checkpoint_io.h"
#include "support/config.h"

namespace pe::evaluation {

/// The word of `eval.encoding` for the encoding that the checkpoint was trained with.
inline constexpr const char* kTrained = "trained";

/// The group `eval`: the selected tasks, their common settings, and a group of options for each task.
struct EvalGroup {
  std::vector<std::string> tasks = {"perplexity"};
  model::WeightsOf weights = model::WeightsOf::kModel;
  support::VariantValue encoding{kTrained};  ///< laid over the checkpoint's weights
  Settings settings;
  std::vector<std::shared_ptr<Task>> all;  ///< in the order of evaluation::tasks()

  EvalGroup();
  void describe(support::FieldVisitor& v);
  bool replaces_encoding() const;
};

/// Selections to start from: configs/eval/<name>.yml, with the purpose of each in one line.
struct Suite {
  std::string name, meaning;
};
const std::vector<Suite>& suites();

/// Every task, suite, protocol and algorithmic task, one line each, as `pe-evaluate --list` prints them.
std::string list_text();

/// Objects that only some tasks need.
struct TaskExtras {
  const ModelVariants* variants = nullptr;
  const DocumentSource* fitting = nullptr;
  const model::LanguageModel* model = nullptr;
  const model::LanguageModel* reference = nullptr;
  std::string reference_name;
  Json trained_task = nullptr;
};

/// Runs the selected tasks in the order of their names. `results` keeps their rows.
void run_tasks(const EvalGroup& group, Scorer& scorer, const TextCodec& text, const DocumentSource& documents,
               Results& results, support::Progress& progress, const TaskExtras& extras = {});

}  // namespace pe::evaluation
