/// @file
/// Keeps out/ and reports/ (view.h) up to date while a run goes on: a result has its name as soon as it is there.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "pipeline/run/run_context.h"
#include "pipeline/run/view.h"

namespace pe::pipeline {

class FriendlyNames {
 public:
  explicit FriendlyNames(RunContext& run);
  /// A result that is in the store now. `snapshot` is an index into Task::snapshots, or TaskStates::kWhole.
  void show(std::size_t task, int snapshot, const Result& result);
  /// At the end of a run: whatever is there. Fills in RunSummary::reports.
  void show_all();

 private:
  RunContext& run_;
  View view_;
  std::vector<ViewItem> reports_;     // that are there
  std::size_t expected_reports_ = 0;  // of the tasks that the run is about
};

}  // namespace pe::pipeline
