/// @file
/// Contexts that too few held-out texts hold: one warning for all of a task.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "evaluation/task.h"

namespace pe::evaluation {

struct SkippedContexts {
  std::string subject;                        ///< "prefix": the left-out measurement; empty: the task
  std::map<std::int64_t, std::int64_t> held;  ///< context, tokens → texts that hold it
  std::int64_t contexts = 1;                  ///< that a text must hold
  const char* text = "document";              ///< the kind of these texts: "document", "piece"
};

/// Names each skipped context with its number of texts, the number that the settings ask for, and a remedy. Silent
/// where none is skipped.
void warn_of_skipped(const TaskContext& context, const std::string& task, const std::vector<SkippedContexts>& skipped,
                     std::int64_t least);

}  // namespace pe::evaluation
