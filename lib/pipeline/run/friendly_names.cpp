#include "pipeline/run/friendly_names.h"

#include <filesystem>

namespace pe::pipeline {

FriendlyNames::FriendlyNames(RunContext& run)
    : run_(run),
      view_(run.graph, run.store, std::filesystem::path(run.graph.root) / "out", run.summary.run_id),
      reports_(run.graph, run.store, std::filesystem::path(run.graph.root) / "reports", run.summary.run_id,
               count_reports(run.graph, run.plan)) {}

void FriendlyNames::show(std::size_t i, int snapshot, const Result& result) {
  const std::string label =
      snapshot == TaskStates::kWhole ? "" : run_.task(i).snapshots[static_cast<std::size_t>(snapshot)].label;
  for (const OutputRecord& output : result.outputs) {
    if (output.absent) continue;
    const ViewItem item{i, label, output};
    run_.cache_changes([&] { view_.show(item); });
    if (output.kind == "report") run_.cache_changes([&] { reports_.add(item); });
  }
}

void FriendlyNames::show_all() {
  for (std::size_t i = 0; i < run_.states->size(); ++i) {
    const TaskStates::State& state = run_.states->at(i);
    if (state.phase == TaskPhase::kSkipped) continue;
    if (state.result) show(i, TaskStates::kWhole, state.result.unpack());
    for (const auto& [k, result] : *state.snapshots) show(i, k, result.unpack());
  }
  run_.cache_changes([&] {
    run_.summary.reports = reports_.finish();
    if (run_.options.whole) view_.write_mark(run_.summary.reports);
  });
  for (const auto& odd : {view_.take_odd(), reports_.take_odd()}) {
    for (const std::string& text : odd) run_.warn(text);
  }
}

}  // namespace pe::pipeline
