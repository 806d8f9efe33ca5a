/// @file
/// Runs a task of an evaluation on any scorer, as pe-evaluate would.
#pragma once

#include <string>

#include "evaluation/eval_group.h"
#include "evaluation/fakes.h"

namespace pe::evaluation::testing {

struct EvalConfig {
  EvalGroup eval;
  void describe(support::FieldVisitor& v) { v.group("eval", eval, "What is measured."); }
};

/// Runs one task; `options` are of the group `eval`.
inline Rows run(const std::string& task, Scorer& scorer, Json options, const DocumentSource& documents,
                const TextCodec& codec = ByteCodec(), const TaskExtras& extras = {},
                support::Progress& progress = support::silent_progress()) {
  options["tasks"] = {task};
  const auto config = support::make_config<EvalConfig>(Json{{"eval", options}});
  MemoryResults results;
  run_tasks(config.eval, scorer, codec, documents, results, progress, extras);
  return cells_of(results.rows);
}

}  // namespace pe::evaluation::testing
