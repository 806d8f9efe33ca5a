#include "pipeline/run/run_context.h"

#include "support/text.h"

namespace pe::pipeline {

using support::cat;

RunContext::RunContext(const Graph& graph_in, const Plan& plan_in, Store& store_in, Runner& runner_in,
                       RunListener& listener, const RunOptions& options_in)
    : graph(graph_in), plan(plan_in), store(store_in), runner(runner_in), options(options_in), listener_(listener) {
  shown.graph = &graph;
}

void RunContext::emit(const RunEvent& event) {
  shown.now_s = runner.now();
  if (states) shown.counts = states->counts();
  const bool kept = !folder || folder->add(graph, event);
  if (!summary.mistake.empty()) return;
  if (!kept && !journal_failed_) {
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

Leases::Answer RunContext::acquire(std::size_t i) {
  Leases::Answer answer = leases->acquire(task(i).plan_key);
  if (!answer.acquired) return answer;
  const std::string key = states->at(i).key.hex();
  Leases::Answer second = leases->acquire(key);
  if (!second.acquired) {
    release(i);
    return second;
  }
  leased_keys_[i] = key;
  return answer.broken ? answer : second;
}

void RunContext::release(std::size_t i) {
  leases->release(task(i).plan_key);
  const auto found = leased_keys_.find(i);
  if (found == leased_keys_.end()) return;
  leases->release(found->second);
  leased_keys_.erase(found);
}

void RunContext::mistake(const std::string& what) {
  no_new_starts = true;
  summary.mistake = what.empty() ? "an exception without a text" : what;
  if (folder)
    folder->add(graph, {"warn", -1, 0, {{"text", cat("a mistake of pe-pipeline, stopping: ", summary.mistake)}}});
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
