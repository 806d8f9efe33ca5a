/// @file
/// Keeps out/ and reports/ (view.h) up to date during a run. A result has its name when it enters the store, and
/// `latest` changes at the end of the run. Names decide nothing: a failure is a warning.
#pragma once

#include <cstddef>
#include <vector>

#include "pipeline/run/run_context.h"
#include "pipeline/run/view.h"

namespace pe::pipeline {

class FriendlyNames {
 public:
  explicit FriendlyNames(RunContext& run);
  /// A result that is in the store now. `snapshot` is an index into Task::snapshots, or TaskStates::kWhole.
  void show(std::size_t task, int snapshot, const Result& result);
  /// At the end of a run: whatever is there. Fills in RunSummary::reports and `relinked`.
  void show_all();

 private:
  std::vector<ViewItem> items_of(std::size_t task, int snapshot, const Result& result) const;
  void show(const ViewItem& item);

  RunContext& run_;
  View view_;
  Reports reports_;
};

}  // namespace pe::pipeline
