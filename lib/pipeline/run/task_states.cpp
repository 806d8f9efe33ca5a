#include "pipeline/run/task_states.h"

#include <algorithm>
#include <utility>

#include "support/hash.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::quote;

std::string_view phase_name(TaskPhase phase) {
  switch (phase) {
    case TaskPhase::kWaiting:
      return "waiting";
    case TaskPhase::kReady:
      return "ready";
    case TaskPhase::kVerifying:
      return "verifying";
    case TaskPhase::kRunning:
      return "running";
    case TaskPhase::kDone:
      return "done";
    case TaskPhase::kReused:
      return "reused";
    case TaskPhase::kFailed:
      return "failed";
    case TaskPhase::kBlocked:
      return "blocked";
    case TaskPhase::kInterrupted:
      return "interrupted";
    case TaskPhase::kSkipped:
      return "skipped";
  }
  return "unknown";
}

bool is_unfinished(TaskPhase phase) {
  return phase == TaskPhase::kWaiting || phase == TaskPhase::kReady || phase == TaskPhase::kVerifying ||
         phase == TaskPhase::kRunning;
}

namespace {

bool is_gather(const Task& task, const std::string& role) {
  const artifact::InputRole* input = task.stage->find_input(role);
  return input && input->many;
}

bool lacks_result(TaskPhase phase) { return phase == TaskPhase::kFailed || phase == TaskPhase::kBlocked; }

}  // namespace

InputRecord input_record(const Graph& graph, const Task& task, const TaskInputs& inputs, std::size_t number) {
  const Edge& edge = task.inputs[number];
  const auto missing = inputs.missing.find(number);
  const bool there = missing == inputs.missing.end();
  return {edge.role, there ? inputs.digests[number].digest : "", producer_id(graph, edge), labels_of(graph, edge),
          there ? "" : missing->second};
}

TaskStates::TaskStates(const Graph& graph, const Plan& plan, const std::vector<double>& seconds, std::vector<bool> only)
    : graph_(graph),
      plan_(plan),
      only_(std::move(only)),
      states_(graph.tasks.size()),
      phases_(graph.tasks.size(), TaskPhase::kSkipped),
      ready_(graph, seconds),
      readers_(graph.tasks.size()),
      first_edge_(graph.tasks.size()),
      open_(graph.tasks.size(), 0) {
  std::size_t edges = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    first_edge_[i] = edges;
    edges += graph.tasks[i].inputs.size();
  }
  settled_.assign(edges, false);
  edge_snapshot_.assign(edges, kWhole);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const auto& inputs = graph.tasks[i].inputs;
    for (std::size_t e = 0; e < inputs.size(); ++e) {
      const Reader reader{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(e), snapshot_number(inputs[e])};
      edge_snapshot_[first_edge_[i] + e] = reader.snapshot;
      readers_[inputs[e].producer].push_back(reader);
    }
  }
}

// ---- what happens

void TaskStates::set_phase(std::size_t i, TaskPhase phase) {
  TaskPhase& current = states_[i].phase;
  if (current == phase) return;
  if (current != TaskPhase::kSkipped) --counts_[current];
  if (phase != TaskPhase::kSkipped) ++counts_[phase];
  if (current == TaskPhase::kReady) ready_.remove(i);
  if (phase == TaskPhase::kReady) ready_.add(i);
  current = phases_[i] = phase;
  if (is_unfinished(phase)) return;
  const auto twins = twins_.find(i);
  if (twins == twins_.end()) return;
  const std::vector<std::size_t> waiting = std::move(twins->second);
  twins_.erase(twins);
  for (const std::size_t twin : waiting) push_settled(twin);
}

void TaskStates::want(std::size_t first) {
  std::vector<std::size_t> wanted{first};
  while (!wanted.empty()) {
    const std::size_t i = wanted.back();
    wanted.pop_back();
    if (states_[i].phase != TaskPhase::kSkipped) continue;
    set_phase(i, TaskPhase::kWaiting);
    count_inputs(i, wanted);
  }
}

void TaskStates::look_again(std::size_t i) {
  if (plan_.never_makes(i)) return mark_unavailable(i, TaskPhase::kSkipped, {});
  std::vector<std::size_t> wanted;
  set_phase(i, TaskPhase::kWaiting);
  count_inputs(i, wanted);
  for (const std::size_t producer : wanted) want(producer);
}

/// Counts the open inputs of a waiting task; producers that were not wanted so far are added to `producers`.
void TaskStates::count_inputs(std::size_t i, std::vector<std::size_t>& producers) {
  const Task& task = graph_.tasks[i];
  if (!is_own(i)) {  // its own process reports its end: no news
    mark_unavailable(i, TaskPhase::kBlocked, "is made by another process of this run");
    return;
  }
  for (const ExternalInput& external : task.externals) {
    if (external.content->missing.empty()) continue;
    block(i, cat("input missing: ", quote(external.content->missing), " (", external.field, ")"));
    return;
  }
  open_[i] = 0;
  for (std::size_t e = 0; e < task.inputs.size(); ++e) {
    const Edge& edge = task.inputs[e];
    std::string reason, root;
    const Input input = look_at(i, edge, reason, root);
    if (input == Input::kBlocks) {
      block(i, reason, root);
      return;
    }
    settled_[first_edge_[i] + e] = input == Input::kSettled;
    if (input == Input::kSettled) continue;
    ++open_[i];
    if (states_[edge.producer].phase == TaskPhase::kSkipped) producers.push_back(edge.producer);
  }
  if (open_[i] == 0) push_settled(i);
}

TaskStates::Input TaskStates::look_at(std::size_t i, const Edge& edge, std::string& reason, std::string& root) const {
  if (const auto result = result_of(edge)) {
    // A diverged result may lack outputs: nothing to read, but the place is known to be empty.
    if (result->output(edge.output) || result->status == ResultStatus::kDiverged) return Input::kSettled;
    reason = cat("its record of ", producer_id(graph_, edge), " has no output ", quote(edge.output));
    return Input::kBlocks;
  }
  const State& producer = states_[edge.producer];
  const bool left_out = plan_.never_makes(edge.producer);
  if (!left_out && !lacks_result(producer.phase)) return Input::kOpen;
  if (graph_.tasks[i].allow_partial && is_gather(graph_.tasks[i], edge.role)) return Input::kSettled;
  // A blocked producer passes its own root on, so that every descendant names it and no chain grows.
  if (left_out) {
    reason = cat("needs ", producer_id(graph_, edge), ", which has no result; --from-store makes none");
    root = producer_id(graph_, edge);
  } else if (producer.phase == TaskPhase::kFailed) {
    reason = cat("needs ", producer_id(graph_, edge), ", which failed");
    root = producer_id(graph_, edge);
  } else if (!producer.blocked_by->empty()) {
    reason = producer.reason;
    root = producer.blocked_by;
  } else {
    reason = cat("waits for ", producer_id(graph_, edge), ": ", *producer.reason);
    root = producer_id(graph_, edge);
  }
  return Input::kBlocks;
}

void TaskStates::settle_input(std::size_t reader, std::size_t edge) {
  const auto at = settled_.begin() + static_cast<std::ptrdiff_t>(first_edge_[reader] + edge);
  if (*at) return;
  *at = true;
  if (--open_[reader] == 0 && states_[reader].phase == TaskPhase::kWaiting) push_settled(reader);
}

void TaskStates::push_settled(std::size_t i) { news_.push_back({TaskEvent::Kind::kInputsSettled, i}); }

void TaskStates::add_result(std::size_t i, int snapshot, PackedResult added) {
  if (snapshot == kWhole)
    states_[i].result = std::move(added);
  else
    states_[i].snapshots.edit()[snapshot] = std::move(added);
  for (const Reader& reader : readers_[i]) {
    if (reader.snapshot != snapshot || !is_unfinished(states_[reader.task].phase)) continue;
    std::string reason, root;
    if (look_at(reader.task, graph_.tasks[reader.task].inputs[reader.edge], reason, root) == Input::kSettled)
      settle_input(reader.task, reader.edge);
    else if (states_[reader.task].phase == TaskPhase::kWaiting)
      block(reader.task, reason, root);
  }
}

void TaskStates::drop_result(std::size_t i, int snapshot) {
  if (snapshot == kWhole)
    states_[i].result = {};
  else
    states_[i].snapshots.edit().erase(snapshot);
  for (const Reader& reader : readers_[i]) {
    const TaskPhase phase = states_[reader.task].phase;
    if (reader.snapshot != snapshot || !is_unfinished(phase)) continue;
    const auto at = settled_.begin() + static_cast<std::ptrdiff_t>(first_edge_[reader.task] + reader.edge);
    if (*at) ++open_[reader.task];
    *at = false;
    if (phase == TaskPhase::kReady || phase == TaskPhase::kVerifying) set_phase(reader.task, TaskPhase::kWaiting);
  }
}

void TaskStates::fail(std::size_t i, const std::string& reason) { mark_unavailable(i, TaskPhase::kFailed, reason); }

void TaskStates::block(std::size_t i, const std::string& reason, const std::string& root) {
  states_[i].blocked_by = root;
  news_.push_back({TaskEvent::Kind::kBlocked, i});
  mark_unavailable(i, TaskPhase::kBlocked, reason);
}

/// Ends a task without a result.
void TaskStates::mark_unavailable(std::size_t i, TaskPhase phase, const std::string& reason) {
  states_[i].reason = reason;
  set_phase(i, phase);
  propagate_unavailable(i);
}

/// Tells the readers of a task that failed or is blocked, and theirs: without recursion, since chains may be long.
void TaskStates::propagate_unavailable(std::size_t first) {
  std::vector<std::size_t> lacking{first};
  while (!lacking.empty()) {
    const std::size_t i = lacking.back();
    lacking.pop_back();
    for (const Reader& reader : readers_[i]) {
      if (states_[reader.task].phase != TaskPhase::kWaiting) continue;
      std::string reason, root;
      const Input input = look_at(reader.task, graph_.tasks[reader.task].inputs[reader.edge], reason, root);
      if (input == Input::kSettled) settle_input(reader.task, reader.edge);
      if (input != Input::kBlocks) continue;
      states_[reader.task].reason = reason;
      states_[reader.task].blocked_by = root;
      set_phase(reader.task, TaskPhase::kBlocked);
      news_.push_back({TaskEvent::Kind::kBlocked, reader.task});
      lacking.push_back(reader.task);
    }
  }
}

void TaskStates::make_ready_again(std::size_t i) {
  set_phase(i, TaskPhase::kWaiting);
  if (open_[i] == 0) set_phase(i, TaskPhase::kReady);
}

// ---- what follows

std::optional<TaskStates::TaskEvent> TaskStates::next_event() {
  while (!news_.empty()) {
    const TaskEvent news = news_.front();
    news_.pop_front();
    if (news.kind == TaskEvent::Kind::kBlocked) return news;
    if (states_[news.task].phase != TaskPhase::kWaiting || open_[news.task] != 0) continue;
    if (const auto twin = plan_.tasks[news.task].same_as; twin && is_unfinished(states_[*twin].phase)) {
      twins_[*twin].push_back(news.task);
      continue;
    }
    return news;
  }
  return std::nullopt;
}

// ---- looking

std::optional<Result> TaskStates::result(std::size_t i, int snapshot) const {
  const State& state = states_[i];
  const auto unpacked = [](const PackedResult& packed) {
    return packed ? std::optional(packed.unpack()) : std::nullopt;
  };
  if (snapshot == kWhole) return unpacked(state.result);
  const auto found = state.snapshots->find(snapshot);
  return found == state.snapshots->end() ? std::nullopt : unpacked(found->second);
}

int TaskStates::snapshot_number(const Edge& edge) const {
  if (edge.snapshot.empty()) return kWhole;
  const auto& points = graph_.tasks[edge.producer].snapshots;
  const auto found = std::find_if(points.begin(), points.end(),
                                  [&](const SnapshotPoint& point) { return point.label == edge.snapshot; });
  return static_cast<int>(found - points.begin());
}

std::optional<Result> TaskStates::result_of(const Edge& edge) const {
  return result(edge.producer, snapshot_number(edge));
}

TaskInputs TaskStates::inputs_of(std::size_t i) const {
  const Task& task = graph_.tasks[i];
  TaskInputs out;
  out.digests.reserve(task.inputs.size());
  for (std::size_t e = 0; e < task.inputs.size(); ++e) {
    const Edge& edge = task.inputs[e];
    const State& producer = states_[edge.producer];
    const int snapshot = edge_snapshot_[first_edge_[i] + e];
    const auto& points = graph_.tasks[edge.producer].snapshots;
    const auto point = static_cast<std::size_t>(snapshot);
    const std::int64_t step = snapshot == kWhole || point >= points.size() ? -1 : points[point].step;
    const auto found = result(edge.producer, snapshot);
    const OutputRecord* output = found ? found->output(edge.output) : nullptr;
    const bool diverged = found && found->status == ResultStatus::kDiverged;
    if (diverged && out.diverged_parent.empty() && !is_gather(task, edge.role))
      out.diverged_parent = producer_id(graph_, edge);
    if (output) {
      out.digests.push_back({edge.role, output->content, step});
    } else if (diverged) {
      // The key must tell whose place is empty.
      out.digests.push_back({edge.role, diverged_digest({producer.key.hex(), step}), step});
      out.missing[e] = "diverged";
    } else {
      // The stage reads which one is missing and why, so it is in the key.
      const std::string why(plan_.never_makes(edge.producer) ? "not in the store" : phase_name(producer.phase));
      const Json missing{{"plan", graph_.tasks[edge.producer].plan_key}, {"step", step}, {"reason", why}};
      out.digests.push_back({edge.role, support::canonical_hash("pe/missing/1", missing), step});
      out.missing[e] = why;
    }
  }
  return out;
}

std::vector<std::size_t> TaskStates::needed_snapshots(std::size_t i) const {
  const Task& task = graph_.tasks[i];
  const PlannedTask& planned = plan_.tasks[i];
  std::vector<bool> wanted(task.snapshots.size());
  for (std::size_t k = 0; k < wanted.size() && k < planned.snapshots.size(); ++k)
    wanted[k] = planned.snapshots[k].needed;
  // A snapshot that existed when planning may be damaged now; its waiting readers need it.
  for (const Reader& reader : readers_[i]) {
    const auto k = static_cast<std::size_t>(reader.snapshot);
    if (reader.snapshot != kWhole && k < wanted.size() && states_[reader.task].phase == TaskPhase::kWaiting)
      wanted[k] = true;
  }
  std::vector<std::size_t> needed;
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    if (wanted[k]) needed.push_back(k);
  }
  return needed;
}

}  // namespace pe::pipeline
