#include "pipeline/run/execution.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "pipeline/plan/key.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::quote;

// ---- states

void Execution::set_phase(std::size_t i, TaskPhase phase) {
  TaskPhase& current = nodes_[i].phase;
  if (current == phase) return;
  if (current != TaskPhase::kSkipped) --state_.counts[current];
  if (current == TaskPhase::kReady) {
    queue_->remove(i);
    state_.elsewhere.erase(i);
  }
  current = phase;
  state_.phases[i] = phase;
  if (phase != TaskPhase::kSkipped) ++state_.counts[phase];
  if (phase == TaskPhase::kReady) queue_->add(i);
}

void Execution::emit(RunEvent event) {
  state_.now_s = runner_.now();
  if (folder_ && !folder_->add(graph_, event) && !journal_failed_) {
    journal_failed_ = true;
    listener_.on_event({"warn", -1, 0, {{"text", "the journal of this run cannot be written; the run goes on"}}},
                       state_);
  }
  listener_.on_event(event, state_);
}

const Result* Execution::result_of(const Edge& edge) const {
  const Node& node = nodes_[edge.producer];
  if (edge.snapshot.empty()) return node.result ? &*node.result : nullptr;
  const auto found = node.snapshots.find(edge.snapshot);
  return found == node.snapshots.end() ? nullptr : &found->second;
}

std::int64_t Execution::step_of(const Edge& edge) const {
  if (edge.snapshot.empty()) return -1;
  for (const SnapshotPoint& point : graph_.tasks[edge.producer].snapshots) {
    if (point.label == edge.snapshot) return point.step;
  }
  return -1;
}

std::string Execution::producer_id(const Edge& edge) const {
  return graph_.tasks[edge.producer].id + (edge.snapshot.empty() ? "" : "@" + edge.snapshot);
}

bool Execution::is_many(const Task& task, const std::string& role) const {
  const InputDescription* input = task.stage->find_input(role);
  return input && input->many;
}

void Execution::evaluate(std::size_t i) {
  Node& node = nodes_[i];
  if (node.phase != TaskPhase::kWaiting) return;
  const Task& task = graph_.tasks[i];
  for (const ExternalInput& external : task.externals) {
    if (!external.content->missing.empty()) {
      block(i, cat("input missing: ", quote(external.content->missing), " (", external.field, ")"));
      return;
    }
  }
  std::vector<InputDigest> digests;
  std::vector<InputRecord> records;
  bool pending = false;
  std::string diverged_parent;
  for (const Edge& edge : task.inputs) {
    const Result* result = result_of(edge);
    const OutputRecord* output = result ? result->output(edge.output) : nullptr;
    const bool many = is_many(task, edge.role);
    const bool has_diverged = result && result->status == ResultStatus::kDiverged;
    InputRecord record{edge.role, output ? output->content : "", producer_id(edge), *edge.labels, ""};
    if (has_diverged && !many && diverged_parent.empty()) diverged_parent = producer_id(edge);
    if (output) {
      digests.push_back({edge.role, output->content, step_of(edge)});
      records.push_back(std::move(record));
      continue;
    }
    if (result && has_diverged) {
      // Nothing to read, but the key must still tell whose place is empty.
      digests.push_back({edge.role, diverged_digest({nodes_[edge.producer].key, step_of(edge)}), step_of(edge)});
      record.missing = "diverged";
      records.push_back(std::move(record));
      continue;
    }
    if (result) {
      block(i, cat("its record of ", producer_id(edge), " has no output ", quote(edge.output)));
      return;
    }
    const TaskPhase phase = nodes_[edge.producer].phase;
    if (phase == TaskPhase::kFailed || phase == TaskPhase::kBlocked) {
      if (task.allow_partial && many) {
        record.missing = std::string(phase_name(phase));
        records.push_back(std::move(record));
        continue;
      }
      // A blocked producer hands its own root on, so that every descendant names it and no chain grows.
      const Node& producer = nodes_[edge.producer];
      if (phase == TaskPhase::kFailed)
        block(i, cat("needs ", producer_id(edge), ", which failed"), producer_id(edge));
      else if (!producer.blocked_by.empty())
        block(i, producer.reason, producer.blocked_by);
      else
        block(i, cat("waits for ", producer_id(edge), ": ", producer.reason), producer_id(edge));
      return;
    }
    pending = true;
    activate(edge.producer);
  }
  if (const auto twin = plan_.tasks[i].same_as; twin && !settled(*twin)) {
    twins_[*twin].push_back(i);
    return;
  }
  if (pending) return;
  const bool nothing =
      std::all_of(records.begin(), records.end(), [](const InputRecord& record) { return !record.missing.empty(); });
  if (task.allow_partial && !task.inputs.empty() && nothing) {
    block(i, "nothing that it gathers is there");
    return;
  }
  node.preimage = task_preimage(task, digests);
  node.key = task_key_of(node.preimage);
  node.inputs = std::move(digests);
  node.input_records = std::move(records);
  if (twin_made_it(i)) node.forced = false;
  if (!node.forced && look_up(i)) return;
  if (!diverged_parent.empty()) {
    inherit_divergence(i, diverged_parent);
    return;
  }
  set_phase(i, TaskPhase::kReady);
}

bool Execution::settled(std::size_t i) const {
  const TaskPhase phase = nodes_[i].phase;
  return phase != TaskPhase::kWaiting && phase != TaskPhase::kReady && phase != TaskPhase::kRunning;
}

bool Execution::twin_made_it(std::size_t i) const {
  const auto twin = plan_.tasks[i].same_as;
  return twin && nodes_[*twin].made;
}

void Execution::activate(std::size_t i) {
  if (nodes_[i].phase != TaskPhase::kSkipped) return;
  set_phase(i, TaskPhase::kWaiting);
  evaluate(i);
}

bool Execution::look_up(std::size_t i) {
  Node& node = nodes_[i];
  const Task& task = graph_.tasks[i];
  if (!task.is_trajectory()) {
    const auto result = store_.find({node.key, -1});
    if (!result || !store_.complete(*result)) return false;
    node.result = *result;
  } else {
    bool all = true;
    for (const std::size_t k : needed_snapshots(i)) {
      const SnapshotPoint& point = task.snapshots[k];
      const auto result = store_.find({node.key, point.step});
      if (result && store_.complete(*result))
        node.snapshots[point.label] = *result;
      else
        all = false;
    }
    if (!all) {
      notify_readers(i);
      return false;
    }
  }
  if (leases_) leases_->release(task.plan_key);  // held while an earlier stage of it was on its way out
  remember_plan(i);
  set_phase(i, node.made ? TaskPhase::kDone : TaskPhase::kReused);
  if (!node.made) {
    emit({"reuse", static_cast<std::int64_t>(i), 0, {{"key", node.key}}});
  }
  notify_readers(i);
  return true;
}

std::vector<std::size_t> Execution::needed_snapshots(std::size_t i) const {
  const Task& task = graph_.tasks[i];
  const PlannedTask& planned = plan_.tasks[i];
  std::vector<std::size_t> needed;
  for (std::size_t k = 0; k < task.snapshots.size(); ++k) {
    bool wanted = k < planned.snapshots.size() && planned.snapshots[k].needed;
    for (std::size_t reader = 0; !wanted && reader < readers_[i].size(); ++reader) {
      // A snapshot that was there when planning may be damaged now; whoever waits for it needs it.
      const std::size_t r = readers_[i][reader];
      if (nodes_[r].phase != TaskPhase::kWaiting) continue;
      for (const Edge& edge : graph_.tasks[r].inputs) {
        wanted = wanted || (edge.producer == i && edge.snapshot == task.snapshots[k].label);
      }
    }
    if (wanted) needed.push_back(k);
  }
  return needed;
}

void Execution::remember_plan(std::size_t i) {
  guarded([&] { store_.set_hint(graph_.tasks[i].plan_key, nodes_[i].key); });
}

void Execution::notify_readers(std::size_t i) {
  for (const std::size_t reader : readers_[i]) evaluate(reader);
  const auto twins = twins_.find(i);
  if (twins != twins_.end() && settled(i)) {
    const std::vector<std::size_t> waiting = std::move(twins->second);
    twins_.erase(twins);
    for (const std::size_t twin : waiting) evaluate(twin);
  }
}

void Execution::block(std::size_t i, const std::string& reason, const std::string& root) {
  nodes_[i].reason = reason;
  nodes_[i].blocked_by = root;
  set_phase(i, TaskPhase::kBlocked);
  Json detail{{"reason", reason}};
  if (!root.empty()) detail["root"] = root;
  emit({"block", static_cast<std::int64_t>(i), 0, std::move(detail)});
  notify_readers(i);
}

void Execution::store_failed(const std::string& why) {
  if (summary_.store_error.empty()) {
    summary_.store_error = why;
    emit({"warn", -1, 0, {{"text", cat("the store cannot be written, stopping: ", why)}}});
  }
  no_new_starts_ = true;
  stop_stages(SIGTERM);
}

}  // namespace pe::pipeline
