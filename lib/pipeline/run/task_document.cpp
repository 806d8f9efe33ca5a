#include <algorithm>
#include <utility>

#include "pipeline/run/attempts.h"
#include "pipeline/run/program_binding.h"
#include "pipeline/store/attempt.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;

namespace {

/// Unhashed `workers` that are `auto` take the slot's CPUs.
void fill_workers(const support::Schema& fields, std::int64_t cpus, Json& config) {
  for (const support::Field& field : fields) {
    if (field.type == support::FieldType::kGroup && config.contains(field.name)) {
      fill_workers(field.fields, cpus, config[field.name]);
    } else if (field.name == "workers" && !field.options.hashed && config.contains("workers") &&
               config["workers"].is_null()) {
      config["workers"] = cpus;
    }
  }
}

std::string key_of_attempt(const fs::path& attempt) {
  if (!fs::exists(attempt / "task.json")) return "";
  const Json json = Json::parse(support::read_file(attempt / "task.json"), nullptr, false);
  return json.is_object() ? json.value("key", "") : "";
}

}  // namespace

Json Attempts::task_document(ActiveAttempt& attempt, const std::vector<fs::path>& before) const {
  const Task& task = run_.task(attempt.task);
  Json config = *task.config;
  fill_workers(task.stage->fields, attempt.slot.cpus, config);
  Json document{{"schema", "pe-task/1"},
                {"stage", task.stage->name},
                {"key", run_.states->at(attempt.task).key},
                {"config", std::move(config)},
                {"inputs", Json::object()},
                {"outputs", Json::object()},
                {"work", attempt.folder.string()},
                {"resume", nullptr},
                {"events_fd", Launch::kEventsDescriptor}};
  bind_to_program(document, *task.stage, task.hash_build);
  if (!task.checkpoint->empty()) document["checkpoint"] = *task.checkpoint;
  name_inputs(attempt, document);
  name_outputs(attempt, document);
  name_earlier(attempt, document);
  name_resume(attempt, before, document);
  return document;
}

void Attempts::name_inputs(const ActiveAttempt& attempt, Json& document) const {
  const Task& task = run_.task(attempt.task);
  Json& inputs = document["inputs"];
  Json missing = Json::object();
  for (const InputDescription& input : task.stage->inputs) inputs[input.name] = Json::array();
  for (std::size_t e = 0; e < task.inputs.size(); ++e) {
    const Edge& edge = task.inputs[e];
    const InputRecord& record = attempt.inputs.records.at(e);
    if (!record.missing.empty()) {
      missing[edge.role].push_back({{"producer", record.producer}, {"labels", record.labels}, {"reason", record.missing}});
      continue;
    }
    const Result& result = *run_.states->result_of(edge);
    const OutputRecord& output = *result.output(edge.output);
    Json& list = inputs[edge.role];
    const fs::path folder = attempt.folder / "inputs" / cat(edge.role, "-", list.size());
    Json item{{"path", run_.store.materialise(output, folder).string()},
              {"kind", output.kind},
              {"digest", output.content},
              {"labels", *edge.labels}};
    if (result.status == ResultStatus::kDiverged) item["status"] = "diverged";
    list.push_back(std::move(item));
  }
  if (!missing.empty()) document["missing"] = std::move(missing);
}

void Attempts::name_outputs(ActiveAttempt& attempt, Json& document) const {
  const Task& task = run_.task(attempt.task);
  const auto paths_in = [&](const fs::path& folder) {
    support::make_folders(folder);
    Json outputs = Json::object();
    for (const OutputDescription& output : task.stage->outputs)
      outputs[output.name] = (folder / file_name(output)).string();
    return outputs;
  };
  const fs::path out = attempt.folder / "out";
  if (!task.is_trajectory()) {
    document["outputs"] = paths_in(out);
    return;
  }
  support::make_folders(out);
  Json snapshots = Json::array();
  for (const std::size_t k : attempt.snapshots) {
    const SnapshotPoint& point = task.snapshots[k];
    snapshots.push_back({{"label", point.label}, {"step", point.step}, {"outputs", paths_in(out / point.label)}});
  }
  document["snapshots"] = std::move(snapshots);
}

void Attempts::name_earlier(ActiveAttempt& attempt, Json& document) const {
  const auto earlier = checks_.earlier_snapshot(attempt.task, attempt.snapshots);
  if (!earlier) return;
  Json outputs = Json::object();
  for (const OutputRecord& output : earlier->result.outputs)
    outputs[output.role] = run_.store.materialise(output, attempt.folder / "earlier" / output.role).string();
  document["earlier"] = {
      {"label", std::to_string(earlier->step)}, {"step", earlier->step}, {"outputs", std::move(outputs)}};
  attempt.resumed = true;
  attempt.spent_before_s = earlier->result.wall_s;
  // Nothing up to there is this attempt's progress.
  attempt.started_step = attempt.step = std::max(attempt.started_step, earlier->step);
}

void Attempts::name_resume(ActiveAttempt& attempt, const std::vector<fs::path>& before, Json& document) const {
  if (!run_.options.resume || !run_.task(attempt.task).stage->resumes) return;
  const TaskStates::State& state = run_.states->at(attempt.task);
  std::vector<fs::path> candidates;
  for (const fs::path& folder : before) {
    // A forced task must not continue from what it is forced to make again; and a plan key says nothing of contents.
    const int number = std::stoi(folder.filename().string().substr(1));
    if ((!state.forced || number >= tasks_[attempt.task].first_number) && key_of_attempt(folder) == state.key)
      candidates.push_back(folder);
  }
  const auto folder = find_resumable(candidates);
  if (!folder) return;
  document["resume"] = folder->string();
  attempt.resumed = true;
  attempt.spent_before_s = std::max(attempt.spent_before_s, seconds_spent(*folder));
}

}  // namespace pe::pipeline
