#include "pipeline/run/execution.h"

#include <algorithm>
#include <cmath>

#include "support/files.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::quote;

// ---- publishing

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
                     {"ended", utc_text(now, true)},
                     {"wall_s", std::round((now - active.started_unix) * 1e3) / 1e3},
                     {"attempts", active.attempt},
                     {"resumed", active.resumed},
                     {"cpus", active.slot.cpus},
                     {"work", active.folder.string()},
                     {"executable", task.stage->executable},
                     {"build_id", task.stage->build_id},
                     {"program", task.stage->program_digest},
                     {"pipeline", graph_.name}};
  for (const char* name : {"build_id", "libtorch", "device"}) {   // of the program that really ran
    if (active.machine.contains(name) && active.machine[name].is_string()) record.occasion[name] = active.machine[name];
  }
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

void Execution::submit(std::uint64_t ticket, Active& active, int snapshot, ResultStatus status) {
  const Task& task = graph_.tasks[active.task];
  PublishJob job;
  job.ticket = ticket;
  job.snapshot = snapshot;
  fs::path folder = active.folder / "out";
  std::int64_t step = -1;
  if (snapshot >= 0) {
    const auto k = static_cast<std::size_t>(snapshot);
    // Announced twice, or announced while it is under way.
    if (!active.submitted.insert(k).second) return;
    folder /= task.snapshots[k].label;
    step = task.snapshots[k].step;
  }
  job.task = &task;
  job.record = record_for(active, step, status);
  job.recipe = recipe_for(active);
  if (snapshot < 0) {
    job.record.occasion["cpu_s"] = active.exit.cpu_s;
    job.record.occasion["peak_rss_bytes"] = active.exit.peak_rss_bytes;
  }
  for (const OutputDescription& description : task.stage->outputs) {
    const fs::path path = folder / file_name(description);
    // A run that diverged gives what it has.
    if (status == ResultStatus::kDiverged && !fs::exists(path)) continue;
    job.outputs.push_back({description.name, description.kind, description.is_volatile, path});
  }
  ++active.publishing;
  publisher_->submit(std::move(job));
}

Execution::Active* Execution::find_active(std::uint64_t ticket) {
  for (auto* active : {&running_, &ending_}) {
    const auto found = active->find(ticket);
    if (found != active->end()) return &found->second;
  }
  return nullptr;
}

void Execution::collect_published() {
  // What is concluded may hand over more, and be done with it at once.
  for (auto answers = publisher_->collect(); !answers.empty(); answers = publisher_->collect()) {
    for (const PublishAnswer& answer : answers) {
      Active* active = find_active(answer.job.ticket);
      if (!active) continue;
      --active->publishing;
      on_published(*active, answer);
      const auto ended = ending_.find(answer.job.ticket);
      if (ended == ending_.end() || ended->second.publishing > 0) continue;
      if (ended->second.concluded)
        complete(answer.job.ticket);
      else
        conclude(answer.job.ticket);
    }
  }
}

void Execution::on_published(Active& active, const PublishAnswer& answer) {
  const std::size_t i = active.task;
  const bool is_snapshot = answer.job.snapshot >= 0;
  const auto k = static_cast<std::size_t>(std::max(0, answer.job.snapshot));
  const std::string label = is_snapshot ? graph_.tasks[i].snapshots[k].label : "";
  if (is_snapshot) active.submitted.erase(k);
  if (!answer.failed.empty()) {
    active.unstored = true;
    store_failed(answer.failed);
    return;
  }
  if (!answer.changed.empty()) {
    active.changed = cat("its input file ", quote(answer.changed),
                         " is not what it was when the run was planned; start the run again to use it as it is now");
    return;
  }
  if (!answer.damaged.empty()) {
    active.broken = answer.damaged;
    if (is_snapshot) {
      emit({"warn",
            static_cast<std::int64_t>(i),
            active.attempt,
            {{"text", cat("snapshot ", label, " is not whole: ", answer.damaged)}}});
    }
    return;
  }
  const bool good = guarded([&] {
    Json detail = Json::object();
    if (is_snapshot) detail["snapshot"] = label;
    store_.remember(answer.published);
    Result result = announce(active, answer.published, answer.job.record, std::move(detail));
    if (!is_snapshot) {
      nodes_[i].result = std::move(result);
      return;
    }
    active.submitted.insert(k);
    active.published.insert(k);
    nodes_[i].snapshots[label] = std::move(result);
    nodes_[i].fresh.insert(label);
    support::remove_tree(active.folder / "out" / label);
  });
  if (!good) active.unstored = true;
  if (good && is_snapshot) notify_readers(i);
}

Result Execution::announce(const Active& active, const Published& published, const Record& record, Json detail) {
  const std::size_t i = active.task;
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
  const auto found = store_.find(record.key);
  if (found) return *found;
  Result result;
  result.status = record.status;
  result.outputs = record.outputs;
  return result;
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
      return announce(active, store_.commit(record), record, {{"inherited_from", parent}});
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
