#include <algorithm>

#include "pipeline/plan/externals.h"
#include "pipeline/run/attempts.h"
#include "pipeline/run/task_file_writer.h"
#include "pipeline/store/attempt.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/json_fields.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;

namespace {

std::string key_of_attempt(const fs::path& attempt) {
  if (!support::is_there(attempt / "task.json")) return "";
  const Json json = support::parse_json(support::read_file(attempt / "task.json"));
  return support::text_in(json, "key");
}

}  // namespace

void Attempts::write_task_file(ActiveAttempt& attempt, const std::vector<fs::path>& before) const {
  const Task& task = run_.task(attempt.task);
  TaskFileWriter file(*task.stage, run_.states->at(attempt.task).key.hex(), *task.config, attempt.slot.cpus,
                      attempt.folder);
  file.bind_to_program(task.hash_build);
  if (!task.checkpoint->empty()) file.checkpoint(*task.checkpoint);
  name_inputs(attempt, file);
  for (const ExternalInput& external : task.externals) file.name_files(external.field, paths_of(*external.content));
  if (!task.is_trajectory()) file.name_outputs();
  for (const std::size_t k : attempt.snapshots) file.add_snapshot(task.snapshots[k].label, task.snapshots[k].step);
  name_earlier(attempt, file);
  name_resume(attempt, before, file);
  file.write_to(attempt.folder / "task.json");
}

void Attempts::name_inputs(const ActiveAttempt& attempt, TaskFileWriter& file) const {
  const Task& task = run_.task(attempt.task);
  for (std::size_t e = 0; e < task.inputs.size(); ++e) {
    const InputRecord record = input_record(run_.graph, task, attempt.inputs, e);
    if (!record.missing.empty()) {
      file.add_missing(record);
      continue;
    }
    const Edge& edge = task.inputs[e];
    const Result result = *run_.states->result_of(edge);
    file.add_input(run_.store, edge.role, *result.output(edge.output), result.status, record.labels);
  }
}

void Attempts::name_earlier(ActiveAttempt& attempt, TaskFileWriter& file) const {
  const auto earlier = checks_.earlier_snapshot(attempt.task, attempt.snapshots);
  if (!earlier) return;
  file.name_earlier(run_.store, earlier->step, earlier->result.outputs);
  attempt.resumed = true;
  attempt.spent_before_s = earlier->result.wall_s;
  // Nothing up to there is this attempt's progress.
  attempt.started_step = attempt.step = std::max(attempt.started_step, earlier->step);
}

void Attempts::name_resume(ActiveAttempt& attempt, const std::vector<fs::path>& before, TaskFileWriter& file) const {
  if (!run_.options.resume || !run_.task(attempt.task).stage->resumes) return;
  const TaskStates::State& state = run_.states->at(attempt.task);
  std::vector<fs::path> candidates, closed;
  for (const fs::path& folder : before) {
    // A forced task must not continue from the results that it makes again; and a plan key does not contain contents.
    const int number = std::stoi(folder.filename().string().substr(1));
    if (state.forced && number < tasks_[attempt.task].first_number) continue;
    try {
      if (key_of_attempt(folder) == state.key.hex()) candidates.push_back(folder);
    } catch (const support::IoError& error) {
      if (!is_denied(error)) throw;
      closed.push_back(folder);
    }
  }
  const auto folder = find_resumable(candidates, &closed);
  for (const fs::path& each : closed)
    run_.warn(attempt.task, attempt.number,
              cat("cannot continue from ", each.string(), ", which this user may not read"));
  if (!folder) return;
  file.resume_from(*folder);
  attempt.resumed = true;
  attempt.spent_before_s = std::max(attempt.spent_before_s, seconds_spent(*folder));
}

}  // namespace pe::pipeline
