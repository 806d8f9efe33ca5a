#include "pipeline/run/friendly_names.h"

#include <algorithm>
#include <filesystem>

namespace pe::pipeline {

FriendlyNames::FriendlyNames(RunContext& run)
    : run_(run), view_(run.graph, run.store, std::filesystem::path(run.graph.root) / "out") {
  for (std::size_t i = 0; i < run.graph.tasks.size(); ++i) {
    if (run.plan.tasks[i].state == TaskState::kNotNeeded) continue;
    const auto& outputs = run.task(i).stage->outputs;
    expected_reports_ += static_cast<std::size_t>(std::count_if(
        outputs.begin(), outputs.end(), [](const auto& output) { return output.kind == artifact::Kind::kReport; }));
  }
}

void FriendlyNames::show(std::size_t i, int snapshot, const Result& result) {
  const std::string label =
      snapshot == TaskStates::kWhole ? "" : run_.task(i).snapshots[static_cast<std::size_t>(snapshot)].label;
  bool has_report = false;
  run_.cache_changes([&] {
    for (const OutputRecord& output : result.outputs) {
      ViewItem item{i, label, output};
      view_.show(item);
      if (output.kind != "report") continue;
      reports_.push_back(std::move(item));
      has_report = true;
    }
    if (!has_report) return;
    write_reports(run_.graph, run_.store, reports_, std::filesystem::path(run_.graph.root) / "reports",
                  run_.summary.run_id, expected_reports_);
  });
}

void FriendlyNames::show_all() {
  std::vector<ViewItem> reports;
  const auto show = [&](std::size_t i, const std::string& label, const PackedResult& packed) {
    for (OutputRecord& output : packed.unpack().outputs) {
      ViewItem item{i, label, std::move(output)};
      view_.show(item);
      if (item.output.kind == "report") reports.push_back(std::move(item));
    }
  };
  for (std::size_t i = 0; i < run_.states->size(); ++i) {
    const TaskStates::State& state = run_.states->at(i);
    if (state.phase == TaskPhase::kSkipped) continue;
    if (state.result) show(i, "", state.result);
    for (const auto& [k, result] : *state.snapshots)
      show(i, run_.task(i).snapshots[static_cast<std::size_t>(k)].label, result);
  }
  for (const std::string& text : view_.take_odd()) run_.warn(text);
  const std::filesystem::path root = run_.graph.root;
  run_.summary.reports = write_reports(run_.graph, run_.store, reports, root / "reports", run_.summary.run_id);
  if (run_.options.whole) write_view_mark(run_.graph, root / "out", run_.summary.reports);
}

}  // namespace pe::pipeline
