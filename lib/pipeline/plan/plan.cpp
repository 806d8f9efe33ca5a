#include "pipeline/plan/plan.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "artifact/kind.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

const PlannedSnapshot* find_snapshot(const PlannedTask& task, const std::string& label) {
  for (const PlannedSnapshot& snapshot : task.snapshots) {
    if (snapshot.label == label) return &snapshot;
  }
  return nullptr;
}

/// The store's result that an edge reads from; null when there is none, or no certain one.
const Result* find_result(const Plan& plan, const Edge& edge) {
  const PlannedTask& producer = plan.tasks[edge.producer];
  if (!producer.key_is_exact) return nullptr;
  if (edge.snapshot.empty()) return producer.result ? &*producer.result : nullptr;
  const PlannedSnapshot* snapshot = find_snapshot(producer, edge.snapshot);
  return snapshot && snapshot->result ? &*snapshot->result : nullptr;
}

bool missing_external(const Task& task) {
  return std::any_of(task.externals.begin(), task.externals.end(),
                     [](const ExternalInput& external) { return !external.content->missing.empty(); });
}

/// Whether everything that is asked of a task is in the store, or known without anything that needs its bytes.
bool is_present(const PlannedTask& task) {
  if (task.snapshots.empty()) return task.usable();
  return std::all_of(task.snapshots.begin(), task.snapshots.end(),
                     [](const PlannedSnapshot& snapshot) { return !snapshot.needed || snapshot.usable(); });
}

bool record_without_object(const PlannedTask& task) {
  if (task.snapshots.empty()) return task.result && !task.present && !task.known;
  return std::any_of(task.snapshots.begin(), task.snapshots.end(), [](const PlannedSnapshot& snapshot) {
    return snapshot.needed && snapshot.result && !snapshot.present && !snapshot.known;
  });
}

bool bytes_wanted(const PlannedTask& task) {
  return task.bytes_wanted || std::any_of(task.snapshots.begin(), task.snapshots.end(),
                                          [](const PlannedSnapshot& snapshot) { return snapshot.bytes_wanted; });
}

/// Of a task or a snapshot.
template <typename PlannedPipeline>
void take_presence(const StoreView& store, PlannedPipeline& planned) {
  if (!planned.result) return;
  const Presence presence = store.presence(*planned.result);
  planned.present = presence == Presence::kHere;
  planned.known = presence == Presence::kKnown;
}

/// Notes that `reader`, which will run, needs the bytes of an output; they matter where only its contents are known.
void want_bytes(PlannedTask& producer, const Edge& edge, const std::string& reader) {
  const auto note = [&](auto& planned) {
    const OutputRecord* output = planned.known && planned.result ? planned.result->output(edge.output) : nullptr;
    if (!output || !output->absent) return;
    if (producer.reason.empty()) {
      producer.reason = cat("its result is known, but ", output->kind, " ", support::quote(output->role),
                            " is not here, and ", reader, " needs it");
    }
    planned.bytes_wanted = true;
  };
  if (edge.snapshot.empty()) return note(producer);
  for (PlannedSnapshot& snapshot : producer.snapshots) {
    if (snapshot.label == edge.snapshot) note(snapshot);
  }
}

/// Bytes of a selected task are wanted: people ask for a report to read it. For others its contents do, if they
/// `suffice`.
void want_selected(PlannedTask& planned, bool suffice) {
  const auto note = [&](auto& one) {
    if (!one.known || !one.result) return;
    for (const OutputRecord& output : one.result->outputs) {
      if (!output.absent || (suffice && output.kind != artifact::kind_name(artifact::Kind::kReport))) continue;
      one.bytes_wanted = true;
      if (planned.reason.empty())
        planned.reason =
            cat("its result is known, but ", output.kind, " ", support::quote(output.role), " is not here");
    }
  };
  note(planned);
  for (PlannedSnapshot& snapshot : planned.snapshots) note(snapshot);
}

/// "its result is known; checkpoint 'model' is not here, and nothing needs it".
std::string known_reason(const PlannedTask& task) {
  std::string absent = task.known ? absent_outputs(*task.result) : "";
  for (const PlannedSnapshot& snapshot : task.snapshots) {
    if (absent.empty() && snapshot.needed && snapshot.known) absent = absent_outputs(*snapshot.result);
  }
  return cat("its result is known; ", absent, " is not here, and nothing needs it");
}

/// "input missing: path names /data/absent (grid.yml:12); did you mean '/data/present'?"
/// @param near  suggestions so far, by path; each costs a listing of a folder
std::string missing_reason(const Graph& graph, const Task& task, std::map<std::string, std::string>& near) {
  constexpr std::size_t kMostSuggestions = 20;
  for (const ExternalInput& external : task.externals) {
    const std::string& missing = external.content->missing;
    if (missing.empty()) continue;
    const support::Origins origins = graph.origins_of(task);
    const auto place = origins.lower_bound(external.field);
    const bool known =
        place != origins.end() && (place->first == external.field || place->first.starts_with(external.field + "."));
    const auto [suggestion, fresh] = near.try_emplace(missing);
    if (fresh && near.size() <= kMostSuggestions) suggestion->second = support::file_suggestion(missing, {});
    return cat(
        "input missing: ", external.field, " names ", missing,
        known ? cat(" (", place->second.file, place->second.line > 0 ? cat(":", place->second.line) : "", ")") : "",
        suggestion->second.empty() ? "" : "; ", suggestion->second);
  }
  return "";
}

/// Decides on a needed task from the results in the store.
void decide(const Graph& graph, const Task& task, PlannedTask& planned, std::map<std::string, std::string>& near) {
  if (missing_external(task)) {
    planned.state = TaskState::kInputMissing;
    planned.reason_kind = ReasonKind::kMissingPath;
    planned.reason = missing_reason(graph, task, near);
  } else if (planned.forced) {
    planned.state = TaskState::kRun;
    planned.reason_kind = ReasonKind::kForced;
    planned.reason = "forced";
  } else if (is_present(planned)) {
    const bool known = planned.any_known();
    planned.state = planned.key_is_exact ? TaskState::kReuse : TaskState::kLikelyReuse;
    planned.reason_kind = !planned.key_is_exact ? ReasonKind::kFollows
                          : known               ? ReasonKind::kKnown
                                                : ReasonKind::kPresent;
    planned.reason = !planned.key_is_exact ? "there if its inputs stay the same"
                     : known               ? known_reason(planned)
                                           : "the result is there";
  } else if (bytes_wanted(planned) && !record_without_object(planned)) {
    planned.state = TaskState::kRun;
    planned.reason_kind = ReasonKind::kBytesWanted;
  } else {
    planned.state = TaskState::kRun;
    planned.reason_kind = record_without_object(planned) ? ReasonKind::kObjectGone : ReasonKind::kNew;
    planned.reason = record_without_object(planned) ? "its result is recorded, but an object is gone from the store"
                                                    : "no result yet";
  }
  if (planned.state != TaskState::kRun || planned.forced) return;
  // A snapshot that is known and that nothing reads is not made again.
  for (PlannedSnapshot& snapshot : planned.snapshots)
    snapshot.needed = snapshot.needed && (snapshot.present || !snapshot.usable());
}

/// Decides, from the end, on each task that is needed: selected, or an input of a task that must be made.
void decide_needed(const Graph& graph, const PlanOptions& options, Plan& plan) {
  std::vector<bool> needed(graph.tasks.size());
  std::map<std::string, std::string> near;
  for (std::size_t i = graph.tasks.size(); i-- > 0;) {
    PlannedTask& planned = plan.tasks[i];
    if (planned.selected) {
      needed[i] = true;
      for (PlannedSnapshot& snapshot : planned.snapshots) snapshot.needed = true;
      want_selected(planned, options.known_suffices);
    }
    if (!needed[i]) {
      planned.reason = "neither selected nor needed";
      continue;
    }
    decide(graph, graph.tasks[i], planned, near);
    if (planned.state == TaskState::kReuse) continue;
    if (plan.never_makes(i)) {
      planned.state = TaskState::kNotNeeded;
      planned.reason_kind = ReasonKind::kLeftOut;
      planned.reason = "it has no result, and --from-store makes none";
      continue;
    }
    for (const Edge& edge : graph.tasks[i].inputs) {
      needed[edge.producer] = true;
      for (PlannedSnapshot& snapshot : plan.tasks[edge.producer].snapshots) {
        if (snapshot.label == edge.snapshot) snapshot.needed = true;
      }
      if (planned.state == TaskState::kRun) want_bytes(plan.tasks[edge.producer], edge, graph.tasks[i].id);
    }
  }
}

bool is_usable(const PlannedTask& producer, const Edge& edge) {
  if (edge.snapshot.empty()) return producer.usable();
  const PlannedSnapshot* snapshot = find_snapshot(producer, edge.snapshot);
  return snapshot && snapshot->usable();
}

void block(PlannedTask& planned, std::string reason) {
  planned.state = TaskState::kBlocked;
  planned.reason_kind = ReasonKind::kBlockedBy;
  planned.reason = std::move(reason);
}

/// Blocks a task whose producer cannot run, and notes the producers that will. All producers come before the task.
void follow_producers(const Graph& graph, Plan& plan, std::size_t index) {
  const Task& task = graph.tasks[index];
  PlannedTask& planned = plan.tasks[index];
  std::vector<std::string> follows;
  std::size_t usable = 0;
  for (const Edge& edge : task.inputs) {
    const PlannedTask& producer = plan.tasks[edge.producer];
    const bool left_out = producer.reason_kind == ReasonKind::kLeftOut && !is_usable(producer, edge);
    if (producer.state == TaskState::kInputMissing || producer.state == TaskState::kBlocked || left_out) {
      const artifact::InputRole* input = task.stage->find_input(edge.role);
      if (task.allow_partial && input && input->many) continue;  // as the execution does
      // The root of it, so that a whole grid has one line a stage and not one a task.
      return block(planned,
                   producer.state == TaskState::kBlocked
                       ? producer.reason
                       : cat(left_out ? "needs " : "waits for ", graph.tasks[edge.producer].id,
                             left_out ? ", which has no result; --from-store makes none" : ", whose input is missing"));
    }
    ++usable;
    const std::string& label = graph.tasks[edge.producer].label;
    if (producer.state == TaskState::kRun && std::find(follows.begin(), follows.end(), label) == follows.end()) {
      follows.push_back(label);
    }
  }
  if (usable == 0 && !task.inputs.empty()) {
    block(planned, "none of its inputs is there or can be made");
  } else if (planned.reason_kind == ReasonKind::kNew && !planned.key_is_exact && !follows.empty()) {
    planned.reason_kind = ReasonKind::kFollows;
    planned.reason = cat("follows ", support::join(follows, ", "));
  }
}

}  // namespace

std::string_view state_name(TaskState state) {
  switch (state) {
    case TaskState::kReuse:
      return "reuse";
    case TaskState::kLikelyReuse:
      return "likely-reuse";
    case TaskState::kRun:
      return "run";
    case TaskState::kInputMissing:
      return "input-missing";
    case TaskState::kBlocked:
      return "blocked";
    case TaskState::kNotNeeded:
      return "not-needed";
  }
  return "";
}

const std::vector<PastTask>& StoreReader::past_tasks(const std::string& stage) const {
  if (!by_stage_) {
    auto by_stage = std::make_shared<std::map<std::string, std::vector<PastTask>, std::less<>>>();
    for (PastTask& past : store_.past_tasks()) (*by_stage)[std::string(past.stage)].push_back(std::move(past));
    by_stage_ = std::move(by_stage);
  }
  static const std::vector<PastTask> none;
  const auto found = by_stage_->find(stage);
  return found == by_stage_->end() ? none : found->second;
}

Presence StoreView::presence(Result& result) const {
  return presence_of(result, [&](const Result& part) { return complete(part); });
}

bool PlannedTask::any_known() const {
  return known || std::any_of(snapshots.begin(), snapshots.end(),
                              [](const PlannedSnapshot& snapshot) { return snapshot.needed && snapshot.known; });
}

std::size_t Plan::count_known() const {
  return static_cast<std::size_t>(std::count_if(
      tasks.begin(), tasks.end(), [](const PlannedTask& task) { return task.reason_kind == ReasonKind::kKnown; }));
}

std::size_t Plan::count_left_out() const {
  return static_cast<std::size_t>(std::count_if(
      tasks.begin(), tasks.end(), [](const PlannedTask& task) { return task.reason_kind == ReasonKind::kLeftOut; }));
}

std::size_t Plan::count(TaskState state) const {
  return static_cast<std::size_t>(
      std::count_if(tasks.begin(), tasks.end(), [&](const PlannedTask& task) { return task.state == state; }));
}

bool Plan::nothing_to_do() const {
  return std::all_of(tasks.begin(), tasks.end(), [](const PlannedTask& task) {
    return task.state == TaskState::kReuse || task.state == TaskState::kNotNeeded;
  });
}

std::optional<std::vector<InputDigest>> known_inputs(const Graph& graph, const Plan& plan, std::size_t task) {
  std::vector<InputDigest> inputs;
  inputs.reserve(graph.tasks[task].inputs.size());
  for (const Edge& edge : graph.tasks[task].inputs) {
    const Result* result = find_result(plan, edge);
    if (!result) return std::nullopt;
    InputDigest input{edge.role, "", -1};
    if (!edge.snapshot.empty()) input.step = find_snapshot(plan.tasks[edge.producer], edge.snapshot)->step;
    if (const OutputRecord* output = result->output(edge.output))
      input.digest = output->content;
    else if (result->status == ResultStatus::kDiverged)
      input.digest = diverged_digest({plan.tasks[edge.producer].task_key, input.step});
    else
      return std::nullopt;
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::int64_t last_needed_step(const PlannedTask& task) {
  std::int64_t last = 0;
  for (const PlannedSnapshot& snapshot : task.snapshots) {
    if (snapshot.needed) last = std::max(last, snapshot.step);
  }
  return last;
}

void look_up(const Graph& graph, const StoreView& store, KeyMaker& keys, Plan& plan, std::size_t index) {
  const Task& task = graph.tasks[index];
  PlannedTask& planned = plan.tasks[index];
  for (const SnapshotPoint& point : task.snapshots) {
    PlannedSnapshot snapshot;
    snapshot.label = point.label;
    snapshot.step = point.step;
    planned.snapshots.push_back(std::move(snapshot));
  }
  if (missing_external(task)) return;
  if (const auto inputs = known_inputs(graph, plan, index)) {
    planned.task_key = keys.task_key(graph, task, *inputs);
    planned.key_is_exact = true;
  } else if (const auto hint = store.hint(task.plan_key)) {
    planned.task_key = *hint;
  } else {
    return;
  }
  if (!task.is_trajectory()) {
    planned.result = store.find({planned.task_key, -1});
    take_presence(store, planned);
  }
  for (PlannedSnapshot& snapshot : planned.snapshots) {
    snapshot.result = store.find({planned.task_key, snapshot.step});
    take_presence(store, snapshot);
  }
}

Plan make_plan(const Graph& graph, const StoreView& store, const PlanOptions& options) {
  const std::size_t count = graph.tasks.size();
  Plan plan;
  plan.make_inputs = options.make_inputs;
  plan.tasks.resize(count);
  const std::shared_ptr<KeyMaker> keys = keys_of(graph);
  std::unordered_map<std::string_view, std::size_t> first_with_key;
  first_with_key.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    PlannedTask& planned = plan.tasks[i];
    planned.selected = options.selected.empty() || options.selected[i];
    planned.forced = options.force && planned.selected;
    const auto [it, fresh] = first_with_key.try_emplace(graph.tasks[i].plan_key, i);
    if (!fresh) planned.same_as = it->second;
    look_up(graph, store, *keys, plan, i);
  }
  decide_needed(graph, options, plan);
  for (std::size_t i = 0; i < count; ++i) {
    const TaskState state = plan.tasks[i].state;
    if (state == TaskState::kRun || state == TaskState::kLikelyReuse) follow_producers(graph, plan, i);
  }
  return plan;
}

}  // namespace pe::pipeline
