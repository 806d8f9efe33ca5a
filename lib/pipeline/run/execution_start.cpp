#include "pipeline/run/execution.h"

#include <algorithm>

#include "artifact/kind.h"
#include "pipeline/run/local_runner.h"
#include "pipeline/run/task_document.h"
#include "pipeline/store/attempt.h"
#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

// ---- starting

void Execution::start_ready() {
  next_wake_s_ = -1;
  if (no_new_starts_ || stop_level_ > 0 || slots_.full()) return;
  bool starved = false;
  // Slots are taken in order of urgency, but a small task may pass a large one that does not fit now.
  for (auto next = queue_->first(); next && !slots_.full(); next = queue_->after(*next)) {
    const std::size_t i = *next;
    Node& node = nodes_[i];
    const Task& task = graph_.tasks[i];
    if (node.not_before_s > runner_.now()) {
      wake_at(node.not_before_s);
      continue;
    }
    if (busy_.count(task.plan_key) != 0 || busy_.count(node.key) != 0) continue;
    if (refused_.size() < 64 && std::any_of(refused_.begin(), refused_.end(), [&](const Resources* demand) {
          return demand->cpus <= task.resources.cpus && demand->mem_bytes <= task.resources.mem_bytes &&
                 demand->gpus <= task.resources.gpus && demand->pools == task.resources.pools;
        })) {
      continue;  // no smaller than one that did not fit a moment ago
    }
    // Another task may have published the same key meanwhile.
    if (!node.forced && look_up(i)) continue;
    auto slot = slots_.take(task.resources, node.mem_factor, &gpu_leases_);
    if (!slot) {
      refused_.push_back(&task.resources);
      starved = true;
      continue;
    }
    if (!start(i, *slot)) give_back(*slot);
    if (no_new_starts_) break;
  }
  refused_.clear();
  if (starved && running_.empty()) wake_at(runner_.now() + 1);  // GPUs that another program holds
}

void Execution::wake_at(double when_s) {
  if (next_wake_s_ < 0 || when_s < next_wake_s_) next_wake_s_ = when_s;
}

void Execution::give_back(const Slot& slot) {
  for (const std::string& id : slot.gpus) gpu_leases_.give_back(id, slot.gpu_units);
  slots_.give_back(slot);
}

bool Execution::lease(std::size_t i) {
  Node& node = nodes_[i];
  const Task& task = graph_.tasks[i];
  const auto id = static_cast<std::int64_t>(i);
  const Leases::Answer answer = leases_->acquire(task.plan_key);
  if (answer.broken) {
    emit({"note",
          id,
          0,
          {{"text",
            cat("broke the lease of ", answer.broken->pid == 0 ? "an owner without a name" : answer.broken->describe(),
                ": ", answer.why)}}});
  }
  if (answer.acquired) {
    node.lease_polls = 0;
    // Whoever had it may have left the result, which was not there when this task became ready.
    if (node.forced || !look_up(i)) return true;
    leases_->release(task.plan_key);
    return false;
  }
  const std::string owner = answer.holder ? answer.holder->describe() : "an owner whose lease cannot be read";
  if (node.lease_polls == 0) {
    Json detail{{"owner", owner}, {"waits", options_.wait_lease}};
    if (answer.holder) {
      detail["host"] = answer.holder->where.host;
      detail["pid"] = answer.holder->pid;
      detail["run"] = answer.holder->run;
    }
    emit({"wait", id, 0, std::move(detail)});
  }
  if (!options_.wait_lease) {
    node.reason = cat("worked on by ", owner);
    set_phase(i, TaskPhase::kInterrupted);
    return false;
  }
  state_.elsewhere[i] = owner;
  // Often at first, since most tasks are short; then about once a second.
  node.not_before_s = runner_.now() + std::min(1.0, 0.05 * (1 << std::min(node.lease_polls, 5)));
  ++node.lease_polls;
  wake_at(node.not_before_s);
  return false;
}

bool Execution::start(std::size_t i, const Slot& slot) {
  Node& node = nodes_[i];
  const Task& task = graph_.tasks[i];
  const double now = runner_.now();
  bool leased = false;
  if (!guarded([&] { leased = lease(i); }) || !leased) return false;
  const auto before = store_.attempts(task.plan_key);
  // A stage of a run that died may still be on its way out. It ends by itself, since its pipe has closed.
  if (const auto orphan = find_orphan(before)) {
    if (node.orphan_since_s < 0) {
      node.orphan_since_s = now;
      emit({"note",
            static_cast<std::int64_t>(i),
            0,
            {{"text",
              cat("waits for process ", orphan->pid, " of an earlier run to leave ", orphan->folder.string())}}});
    } else if (now - node.orphan_since_s > options_.grace_s) {
      try {
        end_orphan(*orphan);
      } catch (const support::IoError& error) {   // another user's: waiting longer does not help
        leases_->release(task.plan_key);
        fail(i, Outcome::kNode, error.diagnostics().front().message, orphan->folder);
        return false;
      }
    }
    node.not_before_s = now + 0.2;
    wake_at(node.not_before_s);
    return false;  // and keeps the lease
  }
  Active active;
  Launch launch;
  try {
    active.task = i;
    active.slot = slot;
    active.folder = store_.new_attempt(task.plan_key, &active.attempt);
    node.number = active.attempt;
    if (node.first_number == 0) node.first_number = active.attempt;
    active.started_s = now;
    active.started_unix = unix_time();
    active.started_step = node.attempts.last_step;
    active.step = node.attempts.last_step;
    for (const std::size_t k : task.is_trajectory() ? needed_snapshots(i) : std::vector<std::size_t>()) {
      const std::string& label = task.snapshots[k].label;
      if (node.forced ? node.fresh.count(label) == 0 : node.snapshots.count(label) == 0) active.snapshots.push_back(k);
    }
    require_intact_inputs(task);
    launch.ticket = ++last_ticket_;
    launch.directory = active.folder;
    launch.log = active.folder / "stage.log";
    const fs::path description = active.folder / "task.json";
    const Json document = task_document(i, active, before);
    active.resumed = !document["resume"].is_null() || document.contains("earlier");
    if (document.contains("earlier")) {   // nothing up to there is this attempt's progress
      active.started_step = std::max(active.started_step, document["earlier"]["step"].get<std::int64_t>());
      active.step = node.attempts.last_step = active.started_step;
    }
    support::write_file_atomically(description, document.dump(1) + "\n", false);
    launch.arguments = {task.stage->executable, "--task", description.string()};
    launch.environment = stage_environment(slot.gpus, task.stage->name);
  } catch (const support::IoError& error) {
    const bool taken = !leases_->holds(task.plan_key);
    leases_->release(task.plan_key);
    if (taken) {  // this run slept past its lease, and whoever took the task tidied the folder
      node.not_before_s = now + 0.1;
      wake_at(node.not_before_s);
      return false;
    }
    store_failed(error.diagnostics().front().message);
    return false;
  } catch (const support::ArtifactError& error) {
    if (!repair_inputs(i, active)) {
      leases_->release(task.plan_key);
      fail(i, Outcome::kInput, error.diagnostics().front().message, {});
    }
    return false;
  }
  try {
    runner_.start(launch);
  } catch (const support::IoError& error) {
    after_failure(i, active, Outcome::kNode, error.diagnostics().front().message, false);
    return false;
  }
  leases_->name_stage(task.plan_key, runner_.pid(launch.ticket));
  guarded([&] {
    try {
      write_owner(active.folder, runner_.pid(launch.ticket));
    } catch (const support::IoError&) {
      if (leases_->holds(task.plan_key)) throw;  // else the folder went with the lease; the next beat ends this attempt
    }
  });
  set_phase(i, TaskPhase::kRunning);
  busy_.insert(task.plan_key);
  if (!task.is_trajectory()) busy_.insert(node.key);
  Json detail{{"key", node.key},
              {"work", active.folder.string()},
              {"cpus", slot.cpus},
              {"mem_bytes", slot.mem_bytes},
              {"resumed", active.resumed},
              {"log", launch.log.string()},
              {"pid", runner_.pid(launch.ticket)}};
  if (!slot.gpus.empty()) detail["gpus"] = slot.gpus;
  const int attempt = active.attempt;
  running_.emplace(launch.ticket, std::move(active));
  emit({"start", static_cast<std::int64_t>(i), attempt, std::move(detail)});
  return true;
}

void Execution::require_intact_inputs(const Task& task) const {
  if (!options_.check_inputs) return;
  for (const Edge& edge : task.inputs) {
    const Result* result = result_of(edge);
    const OutputRecord* output = result ? result->output(edge.output) : nullptr;
    if (output && !store_.intact(*output)) {
      throw support::ArtifactError(
          cat("its input ", support::quote(edge.role), ", made by ", producer_id(edge), ", is damaged in the store"));
    }
  }
}

std::string Execution::file_name(const OutputDescription& output) {
  return output.name + (artifact::is_collection(output.kind) ? "" : ".h5");
}

Json Execution::task_document(std::size_t i, const Active& active, const std::vector<fs::path>& before) const {
  const Task& task = graph_.tasks[i];
  const Node& node = nodes_[i];
  Json inputs = Json::object();
  Json missing = Json::object();
  for (const InputDescription& input : task.stage->inputs) inputs[input.name] = Json::array();
  std::size_t record_at = 0;
  for (const Edge& edge : task.inputs) {
    const InputRecord& record = node.input_records.at(record_at++);
    if (!record.missing.empty()) {
      missing[edge.role].push_back(
          {{"producer", record.producer}, {"labels", record.labels}, {"reason", record.missing}});
      continue;
    }
    const Result& result = *result_of(edge);
    const OutputRecord& output = *result.output(edge.output);
    Json& list = inputs[edge.role];
    const fs::path folder = active.folder / "inputs" / cat(edge.role, "-", list.size());
    Json item{{"path", store_.materialise(output, folder).string()},
              {"kind", output.kind},
              {"digest", output.content},
              {"labels", *edge.labels}};
    if (result.status == ResultStatus::kDiverged) item["status"] = "diverged";
    list.push_back(std::move(item));
  }
  Json config = *task.config;
  fill_workers(task.stage->fields, active.slot.cpus, config);
  Json document{
      {"schema", "pe-task/1"},          {"stage", task.stage->name},   {"key", node.key},
      {"config", std::move(config)},    {"inputs", std::move(inputs)}, {"outputs", Json::object()},
      {"work", active.folder.string()}, {"resume", nullptr},           {"events_fd", Launch::kEventsDescriptor}};
  bind_to_program(document, *task.stage, task.hash_build);
  if (!missing.empty()) document["missing"] = std::move(missing);
  if (!task.checkpoint->empty()) document["checkpoint"] = *task.checkpoint;
  const fs::path out = active.folder / "out";
  support::make_folders(out);
  if (task.is_trajectory()) {
    Json snapshots = Json::array();
    for (const std::size_t k : active.snapshots) {
      const SnapshotPoint& point = task.snapshots[k];
      Json outputs = Json::object();
      support::make_folders(out / point.label);
      for (const OutputDescription& output : task.stage->outputs) {
        outputs[output.name] = (out / point.label / file_name(output)).string();
      }
      snapshots.push_back({{"label", point.label}, {"step", point.step}, {"outputs", std::move(outputs)}});
    }
    document["snapshots"] = std::move(snapshots);
    if (Json earlier = earlier_snapshot(i, active); !earlier.is_null()) document["earlier"] = std::move(earlier);
  } else {
    for (const OutputDescription& output : task.stage->outputs) {
      document["outputs"][output.name] = (out / file_name(output)).string();
    }
  }
  if (options_.resume && task.stage->resumes) {
    std::vector<fs::path> candidates;
    for (const fs::path& attempt : before) {
      // A forced task must not continue from what it is forced to make again; and a plan key says nothing of
      // contents.
      const int number = std::stoi(attempt.filename().string().substr(1));
      if ((!node.forced || number >= node.first_number) && key_of_attempt(attempt) == node.key)
        candidates.push_back(attempt);
    }
    if (const auto folder = find_resumable(candidates)) document["resume"] = folder->string();
  }
  return document;
}

Json Execution::earlier_snapshot(std::size_t i, const Active& active) const {
  const Node& node = nodes_[i];
  const Task& task = graph_.tasks[i];
  if (!options_.resume || !task.stage->resumes || node.forced || active.snapshots.empty()) return nullptr;
  std::int64_t limit = task.snapshots[active.snapshots.front()].step;
  for (const std::size_t k : active.snapshots) limit = std::min(limit, task.snapshots[k].step);
  const std::vector<std::int64_t> steps = store_.steps(node.key);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (*step >= limit) continue;
    const auto result = store_.find({node.key, *step});
    if (!result || result->status != ResultStatus::kDone || !store_.complete(*result)) continue;
    if (options_.check_inputs && !std::all_of(result->outputs.begin(), result->outputs.end(),
                                              [&](const OutputRecord& output) { return store_.intact(output); })) {
      continue;   // whoever needs that one makes it again
    }
    Json outputs = Json::object();
    for (const OutputRecord& output : result->outputs) {
      outputs[output.role] = store_.materialise(output, active.folder / "earlier" / output.role).string();
    }
    return {{"label", std::to_string(*step)}, {"step", *step}, {"outputs", std::move(outputs)}};
  }
  return nullptr;
}

std::string Execution::key_of_attempt(const fs::path& attempt) {
  if (!fs::exists(attempt / "task.json")) return "";
  const Json json = Json::parse(support::read_file(attempt / "task.json"), nullptr, false);
  return json.is_object() ? json.value("key", "") : "";
}

void Execution::fill_workers(const support::Schema& fields, std::int64_t cpus, Json& config) {
  for (const support::Field& field : fields) {
    if (field.type == support::FieldType::kGroup && config.contains(field.name)) {
      fill_workers(field.fields, cpus, config[field.name]);
    } else if (field.name == "workers" && !field.options.hashed && config.contains("workers") &&
               config["workers"].is_null()) {
      config["workers"] = cpus;
    }
  }
}

// ---- messages of stages

void Execution::on_message(std::uint64_t ticket, Active& active, const Json& message) {
  const auto kind = message.find("event");
  const std::string name = kind != message.end() && kind->is_string() ? kind->get<std::string>() : "progress";
  const auto task = static_cast<std::int64_t>(active.task);
  if (name == "progress") {
    active.progress = message;
    if (message.contains("done") && message["done"].is_number_integer() && !active_reports_steps_.count(active.task)) {
      active.step = std::max(active.step, message["done"].get<std::int64_t>());
    }
    return;
  }
  if (name == "machine") {
    active.machine = message;
    active.machine.erase("event");
    return;
  }
  if (name == "memory") {
    const auto peak = message.find("peak_rss_bytes");
    if (peak != message.end() && peak->is_number_integer()) active.peak_rss_bytes = peak->get<std::int64_t>();
    return;
  }
  if (name == "snapshot") {
    const Json* number = message.contains("step") && message["step"].is_number_integer() ? &message["step"] : nullptr;
    const std::int64_t step = number ? number->get<std::int64_t>() : -1;
    const bool has_diverged = message.contains("status") && message["status"] == "diverged";
    // Whether divergence may be published is decided when the stage has ended.
    if (has_diverged) return;
    for (const std::size_t k : active.snapshots) {
      if (graph_.tasks[active.task].snapshots[k].step == step)
        submit(ticket, active, static_cast<int>(k), ResultStatus::kDone);
    }
    return;
  }
  if (name == "checkpoint") {
    if (message.contains("step") && message["step"].is_number_integer()) {
      if (active_reports_steps_.insert(active.task).second) active.step = active.started_step;
      active.step = std::max(active.step, message["step"].get<std::int64_t>());
    }
  }
  Json detail = message;
  detail.erase("event");
  emit({name == "end" || name == "plan" || name == "publish" || name == "fail" ? "note" : name, task, active.attempt,
        std::move(detail)});
}

}  // namespace pe::pipeline
