#include "pipeline/execution.h"

#include <cmath>

#include "artifact/finish_collection.h"
#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::quote;

// ---- publishing
// ------------------------------------------------------------------------------------------------------

Record Execution::record_for(const Active& active, std::int64_t step, ResultStatus status) const {
  const Task& task = graph_.tasks[active.task];
  const Node& node = nodes_[active.task];
  Record record;
  record.key = {node.key, step};
  record.plan_key = task.plan_key;
  record.stage = task.stage->name;
  record.version = task.stage->version;
  record.task = task.id;
  record.status = status;
  record.inputs = node.input_records;
  record.preimage = node.preimage;
  record.config = *task.config;
  const double now = unix_time();
  record.occasion = {{"run", summary_.run_id},
                     {"host", host_name()},
                     {"started", utc_text(active.started_unix)},
                     {"ended", utc_text(now)},
                     {"wall_s", std::round((now - active.started_unix) * 1e3) / 1e3},
                     {"attempts", active.attempt},
                     {"resumed", active.resumed},
                     {"cpus", active.slot.cpus},
                     {"work", active.folder.string()},
                     {"executable", task.stage->executable},
                     {"build_id", task.stage->build_id},
                     {"pipeline", graph_.name}};
  if (active.task < options_.expected_s.size() && options_.expected_s[active.task] > 0) {
    record.occasion["expected_s"] = options_.expected_s[active.task];   // so that estimates can be judged
  }
  if (!active.slot.gpus.empty()) record.occasion["gpus"] = active.slot.gpus;
  if (!task.externals.empty()) {
    Json paths = Json::object();
    for (const ExternalInput& external : task.externals) paths[external.field] = external.paths;
    record.occasion["paths"] = std::move(paths);
  }
  return record;
}

artifact::Recipe Execution::recipe_for(const Active& active) const {
  const Task& task = graph_.tasks[active.task];
  const Node& node = nodes_[active.task];
  artifact::Recipe recipe;
  recipe.stage = task.stage->name;
  recipe.version = task.stage->version;
  recipe.task_key = node.key;
  recipe.config = *task.config;
  recipe.inputs = Json::object();
  for (const InputRecord& input : node.input_records) {
    if (!input.digest.empty()) recipe.inputs[input.role].push_back(input.digest);
  }
  return recipe;
}

std::vector<OutputRecord> Execution::publish_outputs(const Active& active, const std::string& label, bool all) {
  const Task& task = graph_.tasks[active.task];
  std::vector<OutputRecord> outputs;
  for (const OutputDescription& description : task.stage->outputs) {
    fs::path path = active.folder / "out";
    if (!label.empty()) path /= label;
    path /= file_name(description);
    if (!fs::exists(path)) {
      if (!all) continue;
      throw support::ArtifactError(cat("output ", quote(description.name), " is missing: ", path.string()));
    }
    // A stage that does not link our library only fills the folder of a report.
    if (description.kind == artifact::Kind::kReport)
      artifact::finish_collection(path, description.kind, recipe_for(active));
    outputs.push_back(store_.publish_output({description.name, description.kind, description.is_volatile, path}));
  }
  return outputs;
}

void Execution::commit(const Active& active, Record record, Json detail) {
  const std::size_t i = active.task;
  const Published published = store_.commit(record);
  store_.set_hint(record.plan_key, record.key.key);
  nodes_[i].made = true;
  detail["key"] = record.key.key;
  if (record.key.is_snapshot()) detail["step"] = record.key.step;
  detail["status"] = status_name(record.status);
  std::uint64_t bytes = 0;
  for (const OutputRecord& output : record.outputs) bytes += output.bytes;
  detail["bytes"] = bytes;
  if (published.conflict) {
    ++summary_.conflicts;
    emit({"conflict",
          static_cast<std::int64_t>(i),
          active.attempt,
          {{"key", record.key.key}, {"file", published.conflict_file.string()}, {"first", published.record.task}}});
  }
  detail["same"] = published.existed;
  emit({"publish", static_cast<std::int64_t>(i), active.attempt, std::move(detail)});
}

Result Execution::known(const Record& record) const {
  const auto found = store_.find(record.key);
  if (found) return *found;
  Result result;
  result.status = record.status;
  result.outputs = record.outputs;
  return result;
}

bool Execution::publish_snapshot(Active& active, std::size_t k, ResultStatus status, std::string* why) {
  const SnapshotPoint& point = graph_.tasks[active.task].snapshots[k];
  if (active.published.count(k) != 0) return true;
  bool good = true;
  guarded([&] {
    try {
      Record record = record_for(active, point.step, status);
      record.outputs = publish_outputs(active, point.label, status == ResultStatus::kDone);
      commit(active, record, {{"snapshot", point.label}});
      active.published.insert(k);
      nodes_[active.task].snapshots[point.label] = known(record);
      nodes_[active.task].fresh.insert(point.label);
      support::remove_tree(active.folder / "out" / point.label);
    } catch (const support::ArtifactError& error) {
      good = false;
      const std::string text = error.diagnostics().front().message;
      if (why) *why = text;
      emit({"warn",
            static_cast<std::int64_t>(active.task),
            active.attempt,
            {{"text", cat("snapshot ", point.label, " is not whole: ", text)}}});
    }
  });
  if (active.published.count(k) != 0) notify_readers(active.task);
  return good && active.published.count(k) != 0;
}

void Execution::inherit_divergence(std::size_t i, const std::string& parent) {
  Active active;
  active.task = i;
  active.started_unix = unix_time();
  const Task& task = graph_.tasks[i];
  Node& node = nodes_[i];
  const bool good = guarded([&] {
    const auto publish = [&](std::int64_t step) {
      Record record = record_for(active, step, ResultStatus::kDiverged);
      record.occasion["inherited_from"] = parent;
      commit(active, record, {{"inherited_from", parent}});
      return known(record);
    };
    if (!task.is_trajectory()) node.result = publish(-1);
    for (const std::size_t k : task.is_trajectory() ? needed_snapshots(i) : std::vector<std::size_t>()) {
      node.snapshots[task.snapshots[k].label] = publish(task.snapshots[k].step);
    }
  });
  if (!good) return;
  node.forced = false;
  set_phase(i, TaskPhase::kDone);
  notify_readers(i);
}

}  // namespace pe::pipeline
