#include "pipeline/run/publish_state.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "artifact/kind.h"
#include "pipeline/file/config_value.h"
#include "pipeline/plan/cost.h"
#include "pipeline/plan/key.h"
#include "pipeline/run/task_file_writer.h"
#include "support/clock.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

double rounded_ms(double seconds) { return std::round(seconds * 1e3) / 1e3; }

}  // namespace

Record PublishState::record_for(const ActiveAttempt& attempt, std::int64_t step, ResultStatus status) const {
  const Task& task = run_.task(attempt.task);
  Record record;
  record.key = {run_.states->at(attempt.task).key.hex(), step};
  record.plan_key = task.plan_key;
  record.stage = task.stage->name;
  record.version = task.stage->version;
  record.task = task.id;
  record.status = status;
  for (std::size_t e = 0; e < task.inputs.size(); ++e)
    record.inputs.push_back(input_record(run_.graph, task, attempt.inputs, e));
  record.preimage = task_preimage(run_.graph, task, attempt.inputs.digests);
  record.config = *task.config;
  const bool ran = attempt.number > 0;
  const double spent_s = ran ? attempt.spent_before_s + run_.runner.now() - attempt.started_s : 0;
  record.occasion = {{"run", run_.summary.run_id},
                     {"host", host_name()},
                     {"started", support::utc_text(attempt.started_unix)},
                     {"ended", support::utc_text(support::unix_time(), true)},
                     {"wall_s", rounded_ms(spent_s)},
                     {"attempts", attempt.number},
                     {"resumed", attempt.resumed},
                     {"cpus", attempt.slot.cpus},
                     {"work", attempt.folder.string()},
                     {"executable", task.stage->executable},
                     {"build_id", task.stage->build_id},
                     {"program", task.stage->program_digest},
                     {"pipeline", run_.graph.name}};
  for (const char* name : {"build_id", "libtorch", "device"}) {  // of the program that really ran
    if (attempt.machine.contains(name) && attempt.machine[name].is_string())
      record.occasion[name] = attempt.machine[name];
  }
  // So that estimates can be scaled.
  const ModelCosts costs = model_costs(run_.graph, task);
  if (costs.parameters && costs.flops) {
    record.occasion["model"] = {
        {"parameters", *costs.parameters}, {"flops", *costs.flops}, {"encoding", costs.encoding}};
  }
  if (const auto tokens = own_tokens(run_.graph, task); tokens && !task.is_trajectory())
    record.occasion["tokens"] = *tokens;
  const auto& expected = run_.options.expected_s;
  if (attempt.task < expected.size() && expected[attempt.task] > 0) {
    record.occasion["expected_s"] = expected[attempt.task];  // so that estimates can be judged
  }
  if (!attempt.slot.gpus.empty()) record.occasion["gpus"] = attempt.slot.gpus;
  if (!run_.graph.environment.empty()) record.occasion["environment"] = run_.graph.environment;  // names, for a rerun
  if (!task.externals.empty()) {
    Json paths = Json::object();
    for (const ExternalInput& external : task.externals) paths[external.field] = external.paths;
    record.occasion["paths"] = std::move(paths);
  }
  return record;
}

artifact::Recipe PublishState::recipe_for(const ActiveAttempt& attempt) const {
  const Task& task = run_.task(attempt.task);
  artifact::Recipe recipe;
  recipe.stage = task.stage->name;
  recipe.version = task.stage->version;
  recipe.task_key = run_.states->at(attempt.task).key.hex();
  recipe.config = *task.config;
  recipe.inputs = Json::object();
  // Only the manifest of a report that the publisher writes names the inputs.
  const auto& outputs = task.stage->outputs;
  if (std::none_of(outputs.begin(), outputs.end(),
                   [](const artifact::OutputRole& output) { return output.kind == artifact::Kind::kReport; }))
    return recipe;
  for (std::size_t e = 0; e < task.inputs.size(); ++e) {
    if (attempt.inputs.missing.count(e) == 0)
      recipe.inputs[task.inputs[e].role].push_back(attempt.inputs.digests[e].digest);
  }
  return recipe;
}

/// A forced task replaces what is there, unless another run has taken it over meanwhile.
Standing PublishState::standing_of(std::size_t i) const {
  const bool replaces = run_.states->at(i).forced && run_.leases->holds(run_.task(i).plan_key);
  if (replaces) return Standing::kReplaced;
  // Where only the contents of an earlier result are known, its readers keep it. Without readers, and
  // where another run gives other bytes in any case, the new result counts.
  const Json* deterministic = find_value(*run_.task(i).config, "compute.deterministic");
  const bool inexact = deterministic && *deterministic == "off";
  return inexact || !run_.states->has_readers(i) ? Standing::kReplacedIfKnown : Standing::kStays;
}

void PublishState::submit(std::uint64_t ticket, ActiveAttempt& attempt, int snapshot, ResultStatus status) {
  const Task& task = run_.task(attempt.task);
  PublishJob job;
  job.ticket = ticket;
  job.snapshot = snapshot;
  std::filesystem::path folder = attempt.folder / "out";
  std::int64_t step = -1;
  if (snapshot >= 0) {
    const auto k = static_cast<std::size_t>(snapshot);
    // Announced twice, or announced while it is under way.
    if (!attempt.submitted.insert(k).second) return;
    folder /= task.snapshots[k].label;
    step = task.snapshots[k].step;
  }
  job.task = &task;
  job.standing = standing_of(attempt.task);
  job.record = record_for(attempt, step, status);
  job.recipe = recipe_for(attempt);
  if (snapshot < 0) {
    job.record.occasion["wall_s"] = rounded_ms(attempt.spent_before_s + attempt.exit.wall_s);
    job.record.occasion["cpu_s"] = attempt.exit.cpu_s;
    job.record.occasion["peak_rss_bytes"] = attempt.exit.peak_rss_bytes;
  }
  for (const artifact::OutputRole& description : task.stage->outputs) {
    const std::filesystem::path path = folder / file_name(description);
    // A run that diverged gives what it has.
    if (status == ResultStatus::kDiverged && ::access(path.c_str(), F_OK) != 0 && errno == ENOENT) continue;
    job.outputs.push_back({description.name, description.kind, description.is_volatile, path});
  }
  ++attempt.jobs;
  publisher_.submit(std::move(job));
}

void PublishState::take(ActiveAttempt& attempt, const PublishAnswer& answer) {
  const std::size_t i = attempt.task;
  const int snapshot = answer.job.snapshot;
  const bool is_snapshot = snapshot >= 0;
  const auto k = static_cast<std::size_t>(std::max(0, snapshot));
  const std::string label = is_snapshot ? run_.task(i).snapshots[k].label : "";
  if (is_snapshot) attempt.submitted.erase(k);
  if (!answer.failed.empty()) {
    attempt.unstored = true;
    run_.store_failed(answer.failed);
    return;
  }
  if (!answer.changed.empty()) {
    attempt.changed = cat("its input file ", support::quote(answer.changed),
                          " changed after the run was planned; start the run again to use its present contents");
    return;
  }
  if (!answer.damaged.empty()) {
    attempt.broken = answer.damaged;
    if (is_snapshot) run_.warn(i, attempt.number, cat("snapshot ", label, " is incomplete: ", answer.damaged));
    return;
  }
  if (answer.published.conflict && !answer.published.known_from.empty()) {
    tell_conflict(attempt, answer.published);
    attempt.broken = cat("its contents differ from the known result (", answer.published.known_from,
                         "), which is kept; --force replaces it, and tasks that read it run again");
    if (is_snapshot) attempt.refused[k] = attempt.broken;
    return;
  }
  Json detail = Json::object();
  if (is_snapshot) detail["snapshot"] = label;
  PackedResult result = announce(attempt, answer.published, answer.job.record, std::move(detail));
  if (is_snapshot) {
    attempt.submitted.insert(k);
    attempt.published.insert(k);
    run_.states->at(i).fresh.edit().insert(snapshot);
    run_.cache_changes([&] { support::remove_tree(attempt.folder / "out" / label); });
  }
  const int number = is_snapshot ? snapshot : TaskStates::kWhole;
  if (names_) names_->show(i, number, result.unpack());
  run_.states->add_result(i, number, std::move(result));
}

void PublishState::tell_conflict(const ActiveAttempt& attempt, const PublishResult& published) {
  ++run_.summary.conflicts;
  Json detail{{"key", published.key.key}, {"file", published.conflict_file.string()}, {"first", published.task}};
  if (!published.known_from.empty()) detail["known_from"] = published.known_from;
  run_.emit({"conflict", static_cast<std::int64_t>(attempt.task), attempt.number, std::move(detail)});
}

PackedResult PublishState::announce(const ActiveAttempt& attempt, const PublishResult& published, const Record& record,
                                    Json detail) {
  const std::size_t i = attempt.task;
  run_.cache_changes([&] { run_.store.set_hint(record.plan_key, record.key.key); });
  run_.states->at(i).made = true;
  detail["key"] = record.key.key;
  if (record.key.is_snapshot()) detail["step"] = record.key.step;
  detail["status"] = status_name(record.status);
  std::uint64_t bytes = 0;
  for (const OutputRecord& output : record.outputs) bytes += output.bytes;
  detail["bytes"] = bytes;
  if (published.conflict) tell_conflict(attempt, published);
  if (!published.replaced.empty() && !published.known_from.empty()) {
    ++run_.summary.conflicts;
    run_.warn(i, attempt.number,
              cat("its contents differ from the known result (", published.known_from, "), whose record is now ",
                  published.replaced.string()));
  } else if (!published.replaced.empty()) {
    run_.note(i, cat("its earlier result gives way; the record of that is ", published.replaced.string()));
  }
  detail["same"] = published.existed;
  run_.emit({"publish", static_cast<std::int64_t>(i), attempt.number, std::move(detail)});
  return PackedResult(published.result);
}

bool PublishState::inherit_divergence(std::size_t i, TaskInputs inputs) {
  ActiveAttempt none;
  none.task = i;
  none.started_unix = support::unix_time();
  none.inputs = std::move(inputs);
  const std::string parent = none.inputs.diverged_parent;
  const Task& task = run_.task(i);
  return run_.store_changes([&] {
    const auto publish = [&](std::int64_t step) {
      Record record = record_for(none, step, ResultStatus::kDiverged);
      record.occasion["inherited_from"] = parent;
      return announce(none, run_.store.commit(record), record, {{"inherited_from", parent}});
    };
    if (!task.is_trajectory()) {
      run_.states->add_result(i, TaskStates::kWhole, publish(-1));
      return;
    }
    for (const std::size_t k : run_.states->needed_snapshots(i)) {
      run_.states->add_result(i, static_cast<int>(k), publish(task.snapshots[k].step));
    }
  });
}

}  // namespace pe::pipeline
