#include "pipeline/run/friendly_names.h"

#include <filesystem>

namespace pe::pipeline {

FriendlyNames::FriendlyNames(RunContext& run)
    : run_(run),
      view_(run.graph, run.store, std::filesystem::path(run.graph.root) / "out", run.summary.run_id),
      reports_(run.graph, run.store, std::filesystem::path(run.graph.root) / "reports", run.summary.run_id,
               count_reports(run.graph, run.plan)) {}

std::vector<ViewItem> FriendlyNames::items_of(std::size_t i, int snapshot, const Result& result) const {
  const std::string label =
      snapshot == TaskStates::kWhole ? "" : run_.task(i).snapshots[static_cast<std::size_t>(snapshot)].label;
  std::vector<ViewItem> items;
  for (const OutputRecord& output : result.outputs) {
    if (!output.absent) items.push_back({i, label, output});
  }
  return items;
}

void FriendlyNames::show(const ViewItem& item) {
  run_.cache_changes([&] { view_.show(item); });
  if (item.output.kind == "report") run_.cache_changes([&] { reports_.add(item); });
}

void FriendlyNames::show(std::size_t i, int snapshot, const Result& result) {
  for (const ViewItem& item : items_of(i, snapshot, result)) show(item);
}

void FriendlyNames::show_all() {
  std::vector<ViewItem> items;
  for (std::size_t i = 0; i < run_.states->size(); ++i) {
    const TaskStates::State& state = run_.states->at(i);
    if (state.phase == TaskPhase::kSkipped) continue;
    const auto add = [&](int snapshot, const PackedResult& result) {
      for (ViewItem& item : items_of(i, snapshot, result.unpack())) items.push_back(std::move(item));
    };
    if (state.result) add(TaskStates::kWhole, state.result);
    for (const auto& [k, result] : *state.snapshots) add(k, result);
  }
  for (const ViewItem& item : items) show(item);
  run_.cache_changes([&] {
    run_.summary.reports = reports_.finish();
    view_.finish(run_.summary.reports, view_id(run_.graph, items, run_.store), run_.options.whole);
    if (view_.removed()) run_.summary.relinked = relinked_text(view_, reports_, run_.graph.root);
  });
  for (const auto& odd : {view_.take_odd(), reports_.take_odd()}) {
    for (const std::string& text : odd) run_.warn(text);
  }
}

}  // namespace pe::pipeline
