#include "pipeline/run/run_context.h"

#include "support/text.h"

namespace pe::pipeline {

using support::cat;

RunContext::RunContext(const Graph& graph_in, const Plan& plan_in, Store& store_in, Runner& runner_in,
                       RunListener& listener, const RunOptions& options_in)
    : graph(graph_in),
      plan(plan_in),
      store(store_in),
      runner(runner_in),
      options(options_in),
      listener_(listener) {
  shown.graph = &graph;
}

void RunContext::emit(const RunEvent& event) {
  shown.now_s = runner.now();
  if (states) shown.counts = states->counts();
  if (folder && !folder->add(graph, event) && !journal_failed_) {
    journal_failed_ = true;
    listener_.on_event({"warn", -1, 0, {{"text", "the journal of this run cannot be written; the run continues"}}},
                       shown);
  }
  listener_.on_event(event, shown);
}

void RunContext::warn(std::size_t task, int attempt, std::string text) {
  emit({"warn", static_cast<std::int64_t>(task), attempt, {{"text", std::move(text)}}});
}

void RunContext::note(std::size_t task, std::string text) {
  emit({"note", static_cast<std::int64_t>(task), 0, {{"text", std::move(text)}}});
}

void RunContext::store_failed(const std::string& why) {
  no_new_starts = true;
  if (!summary.store_error.empty()) return;
  summary.store_error = why;
  warn(cat("the store cannot be written, stopping: ", why));
}

void RunContext::cache_failed(const std::string& why) {
  if (std::exchange(cache_failed_, true)) return;
  warn(cat("a file that can be recreated could not be written; the run continues: ", why));
}

}  // namespace pe::pipeline
