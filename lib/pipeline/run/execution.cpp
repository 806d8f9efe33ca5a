#include "pipeline/run/execution.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "pipeline/run/view.h"
#include "support/process.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::quote;

namespace {

constexpr double kTick = 0.25;

}  // namespace

Execution::Execution(const Graph& graph, const Plan& plan, Store& store, Runner& runner, RunListener& listener,
                     const RunOptions& options, const StopFunction& stop)
    : graph_(graph),
      plan_(plan),
      store_(store),
      runner_(runner),
      listener_(listener),
      options_(options),
      stop_(stop),
      slots_(options.capacity),
      nodes_(graph.tasks.size()),
      readers_(graph.tasks.size()) {}

RunSummary Execution::go() {
  begin();
  loop();
  return end();
}

// ---- set-up

void Execution::begin() {
  started_s_ = runner_.now();
  summary_.run_id = options_.run_id.empty() ? new_run_id() : options_.run_id;
  state_.graph = &graph_;
  state_.run_id = summary_.run_id;
  state_.phases.assign(graph_.tasks.size(), TaskPhase::kSkipped);
  for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
    std::size_t last = static_cast<std::size_t>(-1);
    for (const Edge& edge : graph_.tasks[i].inputs) {
      if (edge.producer != last) readers_[edge.producer].push_back(i);
      last = edge.producer;
    }
  }
  refuse_impossible();
  if (options_.check_configs) check_configs();
  store_.tidy_index();
  seconds_ = expected_seconds();
  for (std::size_t i = 0; i < seconds_.size() && i < options_.expected_s.size(); ++i) {
    if (options_.expected_s[i] > 0) seconds_[i] = options_.expected_s[i];
  }
  queue_.emplace(graph_, seconds_);
  LeaseOptions lease_options = options_.lease;
  lease_options.run = summary_.run_id;
  lease_options.pipeline = graph_.name;
  if (!lease_options.now) lease_options.now = [this] { return runner_.now(); };
  lease_options.before_step = store_.before_step();
  leases_ = std::make_unique<Leases>(store_.leases_folder(), lease_options);
  publisher_ = std::make_unique<Publisher>(store_, options_.publish_threads, [this] { runner_.wake(); });
  folder_ = std::make_unique<RunFolder>(store_, graph_, plan_, options_, summary_.run_id);
  for (const LeaseOwner& owner : leases_->sweep())
    emit({"note", -1, 0, {{"text", cat("broke the lease of ", owner.describe(), ": its process is gone")}}});
  for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
    const PlannedTask& planned = plan_.tasks[i];
    Node& node = nodes_[i];
    node.forced = planned.forced;
    node.key = planned.task_key;
    // What is only likely to be the result is looked up once its inputs are certain; nobody may read it before.
    const bool certain = planned.key_is_exact && !node.forced;
    if (certain && planned.present && planned.result) node.result = planned.result;
    for (std::size_t k = 0; k < planned.snapshots.size() && certain; ++k) {
      if (planned.snapshots[k].present) node.snapshots[planned.snapshots[k].label] = *planned.snapshots[k].result;
    }
    if (planned.state == TaskState::kNotNeeded) continue;
    if (planned.state == TaskState::kReuse) {
      set_phase(i, TaskPhase::kReused);
      // A kill between a record and its hint leaves the hint out; it is caught up with here.
      if (store_.hint(graph_.tasks[i].plan_key) != node.key) remember_plan(i);
    } else {
      set_phase(i, TaskPhase::kWaiting);
    }
  }
  Json counts = Json::object();
  for (const auto& [phase, count] : state_.counts) counts[std::string(phase_name(phase))] = count;
  emit({"plan", -1, 0, {{"tasks", counts}, {"capacity", describe(options_.capacity)}}});
  for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
    if (nodes_[i].phase == TaskPhase::kWaiting) evaluate(i);
  }
}

bool Execution::will_run(std::size_t i) const {
  return plan_.tasks[i].state == TaskState::kRun || plan_.tasks[i].state == TaskState::kLikelyReuse;
}

void Execution::refuse_impossible() const {
  support::Diagnostics diagnostics;
  std::map<std::string, std::pair<std::string, std::size_t>> seen;  // message → (first id, count)
  for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
    if (!will_run(i)) continue;
    const std::string why = impossible(graph_.tasks[i].resources, options_.capacity);
    if (why.empty()) continue;
    auto [at, fresh] = seen.try_emplace(graph_.tasks[i].label + "\n" + why, graph_.tasks[i].id, 0);
    ++at->second.second;
  }
  for (const auto& [key, value] : seen) {
    const auto& [id, count] = value;
    diagnostics.add(cat(quote(id), count > 1 ? cat(" and ", count - 1, " more") : std::string(),
                        " cannot run here: ", key.substr(key.find('\n') + 1)));
  }
  diagnostics.throw_if_any();
}

namespace {

/// Where the first field that a message names in quotes was set: of 'model.encoding' the line of that key or of one
/// below it.
support::Place place_named_in(const std::string& message, const support::Origins& origins) {
  for (std::size_t from = message.find('\''); from != std::string::npos; from = message.find('\'', from + 1)) {
    const std::size_t to = message.find('\'', from + 1);
    if (to == std::string::npos) break;
    const std::string name = message.substr(from + 1, to - from - 1);
    const auto found = origins.lower_bound(name);
    if (found == origins.end()) continue;
    if (found->first == name || found->first.rfind(name + ".", 0) == 0) return found->second;
  }
  return {};
}

}  // namespace

void Execution::check_configs() const {
  std::map<std::string, std::vector<std::size_t>> by_executable;
  for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
    if (will_run(i) && !graph_.tasks[i].stage->executable.empty()) {
      by_executable[graph_.tasks[i].stage->executable].push_back(i);
    }
  }
  for (const auto& [executable, tasks] : by_executable) {
    std::string lines;
    for (const std::size_t i : tasks) lines += graph_.tasks[i].config->dump() + "\n";
    const double limit_s = options_.check_s + 0.1 * static_cast<double>(tasks.size());
    const support::Captured captured = support::capture({executable, "--check"}, {.input = lines, .timeout_s = limit_s});
    if (captured.timed_out) {
      throw support::ConfigError(cat(support::quote(executable), " did not answer --check within ",
                                     support::short_duration(limit_s)),
                                 {}, "a stage reads configs from standard input, one a line, until it ends");
    }
    if (captured.status.code == 0) continue;
    // One answer a config, in order: {"ok": true} or {"ok": false, "errors": ["…"]}. Equal ones are told once.
    std::vector<support::Diagnostic> diagnostics;
    std::map<std::string, std::pair<std::size_t, std::size_t>> refused;  // message → (first task, how many)
    std::size_t at = 0;
    for (const std::string& line : support::split(captured.out, '\n')) {
      const Json answer = Json::parse(line, nullptr, false);
      if (!answer.is_object() || at >= tasks.size()) continue;
      const std::size_t task = tasks[at++];
      if (!answer.contains("errors") || !answer["errors"].is_array()) continue;
      for (const Json& error : answer["errors"]) {
        ++refused.try_emplace(error.is_string() ? error.get<std::string>() : error.dump(), task, 0)
              .first->second.second;
      }
    }
    for (const auto& [message, where] : refused) {
      diagnostics.push_back(
          {cat(graph_.tasks[where.first].id, where.second > 1 ? cat(" and ", where.second - 1, " more") : std::string(),
               ": ", message),
           place_named_in(message, graph_.origins_of(graph_.tasks[where.first]))});
    }
    if (diagnostics.empty()) {
      const std::string text(support::trim(captured.err.empty() ? captured.out : captured.err));
      diagnostics.push_back({cat(fs::path(executable).filename().string(), " refuses a config (exit code ",
                                 captured.status.code, "):\n", text)});
    }
    throw support::ConfigError(std::move(diagnostics));
  }
}

std::vector<double> Execution::expected_seconds() const {
  std::vector<double> seconds(graph_.tasks.size(), -1);
  std::map<std::string, std::pair<double, int>> by_label;
  for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
    const Task& task = graph_.tasks[i];
    const auto key = store_.hint(task.plan_key);
    if (!key) continue;
    double wall = 0;
    bool known = false;
    if (task.is_trajectory()) {
      for (const SnapshotPoint& point : task.snapshots) {
        if (const auto result = store_.find({*key, point.step})) {
          wall = std::max(wall, result->wall_s);
          known = true;
        }
      }
    } else if (const auto result = store_.find({*key, -1})) {
      wall = result->wall_s;
      known = true;
    }
    if (!known) continue;
    seconds[i] = wall;
    auto& [sum, count] = by_label[task.label];
    sum += wall;
    ++count;
  }
  for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
    if (seconds[i] >= 0) continue;
    const auto found = by_label.find(graph_.tasks[i].label);
    seconds[i] = found == by_label.end() ? 1.0 : found->second.first / found->second.second;
  }
  known_labels_ = std::move(by_label);
  return seconds;
}

// ---- the loop

void Execution::stop_stages(int signal) {
  for (auto& [ticket, active] : running_) {
    active.stop_sent = true;
    runner_.signal(ticket, signal);
  }
}

void Execution::poll_stop() {
  const int level = stop_ ? stop_() : 0;
  if (level > 0 && stop_level_ == 0) {
    stop_level_ = 1;
    state_.stopping = true;
    stop_since_s_ = runner_.now();
    emit({"stop", -1, 0, {{"level", 1}, {"running", running_.size()}}});
    stop_stages(SIGTERM);
  }
  if (level > 1 && stop_level_ == 1) {
    stop_level_ = 2;
    emit({"stop", -1, 0, {{"level", 2}, {"running", running_.size()}}});
    stop_stages(SIGKILL);
  }
  const bool asked = stop_level_ == 1 || !summary_.store_error.empty();
  if (asked && stop_since_s_ < 0) stop_since_s_ = runner_.now();
  if (asked && !grace_over_ && stop_since_s_ >= 0 && runner_.now() - stop_since_s_ > options_.grace_s &&
      !running_.empty()) {
    grace_over_ = true;
    emit({"warn",
          -1,
          0,
          {{"text", cat("stages did not stop within ", support::short_duration(options_.grace_s), "; killing them")}}});
    stop_stages(SIGKILL);
  }
}

void Execution::loop() {
  double last_tick = 0;
  double last_progress = runner_.now();
  while (true) {
    poll_stop();
    collect_published();
    start_ready();
    if (running_.empty() && ending_.empty() && (queue_->empty() || no_new_starts_ || stop_level_ > 0)) break;
    double timeout = kTick;
    if (next_wake_s_ >= 0) timeout = std::clamp(next_wake_s_ - runner_.now(), 0.001, kTick);
    for (const RunnerEvent& event : runner_.wait(timeout)) {
      if (event.kind == RunnerEvent::Kind::kExit) {
        on_exit(event);
        continue;
      }
      const auto found = running_.find(event.ticket);
      if (found != running_.end()) on_message(event.ticket, found->second, event.message);
    }
    const double now = runner_.now();
    if (now - last_tick >= kTick) {
      last_tick = now;
      enforce_time();
      tend_leases();
      refresh_state();
      listener_.on_tick(state_);
      if (now - last_progress >= 1) {
        last_progress = now;
        folder_->write_progress(state_);
      }
    }
  }
}

void Execution::enforce_time() {
  const double now = runner_.now();
  for (auto& [ticket, active] : running_) {
    const double limit = graph_.tasks[active.task].resources.time_s;
    if (limit <= 0 || active.stop_sent || now - active.started_s < limit) continue;
    if (!active.timed_out) {
      active.timed_out = true;
      active.kill_at_s = now + options_.grace_s;
      emit({"warn",
            static_cast<std::int64_t>(active.task),
            active.attempt,
            {{"text", cat("has run for ", support::short_duration(limit),
                          ", the time that its resources allow; asked it to save and stop")}}});
      runner_.signal(ticket, SIGTERM);
    } else if (active.kill_at_s >= 0 && now >= active.kill_at_s) {
      active.kill_at_s = -1;
      runner_.signal(ticket, SIGKILL);
    }
  }
}

bool Execution::results_there(std::size_t i) const {
  const Task& task = graph_.tasks[i];
  const auto there = [&](std::int64_t step) {
    const auto result = store_.find({nodes_[i].key, step});
    return result && store_.complete(*result);
  };
  if (!task.is_trajectory()) return there(-1);
  const auto needed = needed_snapshots(i);
  return std::all_of(needed.begin(), needed.end(), [&](std::size_t k) { return there(task.snapshots[k].step); });
}

void Execution::tend_leases() {
  std::vector<std::string> lost;
  guarded([&] { lost = leases_->beat(); });
  for (auto& [ticket, active] : running_) {
    const Task& task = graph_.tasks[active.task];
    if (std::find(lost.begin(), lost.end(), task.plan_key) != lost.end()) {
      active.lease_lost = true;
      emit({"warn",
            static_cast<std::int64_t>(active.task),
            active.attempt,
            {{"text",
              "another run took it over while this one was stopped; it goes on, and counts if it is the first to "
              "end"}}});
    }
    if (active.lease_lost && !active.superseded && !active.stop_sent && !nodes_[active.task].forced &&
        results_there(active.task)) {
      active.superseded = true;
      runner_.signal(ticket, SIGTERM);
    }
  }
}

void Execution::refresh_state() {
  state_.now_s = runner_.now();
  state_.running.clear();
  for (const auto& [ticket, active] : running_) {
    state_.running.push_back(
        {active.task, active.attempt, active.started_s, expected_of(active.task), active.progress});
  }
  for (const auto& [ticket, active] : ending_) {
    state_.running.push_back({active.task, active.attempt, active.started_s, -1, {{"what", "publishing"}}});
  }
  state_.eta_s = estimate();
}

double Execution::expected_of(std::size_t i) const {
  if (i < options_.expected_s.size() && options_.expected_s[i] > 0) return options_.expected_s[i];
  const auto label = known_labels_.find(graph_.tasks[i].label);
  return label == known_labels_.end() ? -1 : label->second.first / label->second.second;
}

double Execution::estimate() const {
  std::map<std::size_t, double> gone;
  for (const auto& [ticket, active] : running_) gone[active.task] = runner_.now() - active.started_s;
  double cpu_s = 0, gpu_s = 0, path_s = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const TaskPhase phase = nodes_[i].phase;
    if (phase != TaskPhase::kWaiting && phase != TaskPhase::kReady && phase != TaskPhase::kRunning) continue;
    const auto label = known_labels_.find(graph_.tasks[i].label);
    if (label == known_labels_.end()) return -1;
    const double whole = label->second.first / label->second.second;
    const auto began = gone.find(i);
    const double past = began == gone.end() ? 0 : std::min(began->second, whole);
    cpu_s += (whole - past) * static_cast<double>(graph_.tasks[i].resources.cpus);
    gpu_s += (whole - past) * static_cast<double>(graph_.tasks[i].resources.gpus);
    path_s = std::max(path_s, queue_->remaining(i) - past);
  }
  // No schedule is faster than its longest path, nor than all work spread over all slots.
  const auto& capacity = options_.capacity;
  return std::max({path_s, cpu_s / static_cast<double>(std::max<std::int64_t>(1, capacity.cpus)),
                   capacity.gpus.empty() ? 0.0 : gpu_s / static_cast<double>(capacity.gpus.size())});
}

// ---- the end

RunSummary Execution::end() {
  std::vector<ViewItem> items;
  std::size_t unfinished = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    summary_.phases.push_back(node.phase);
    if (node.phase == TaskPhase::kSkipped) continue;
    if (node.phase == TaskPhase::kReused) ++summary_.reused;
    if (node.phase == TaskPhase::kBlocked) ++summary_.blocked;
    if (node.phase == TaskPhase::kWaiting || node.phase == TaskPhase::kReady || node.phase == TaskPhase::kInterrupted)
      ++unfinished;
    if (node.result) {
      for (const OutputRecord& output : node.result->outputs) items.push_back({i, "", output});
    }
    for (const auto& [label, result] : node.snapshots) {
      for (const OutputRecord& output : result.outputs) items.push_back({i, label, output});
    }
  }
  if (summary_.store_error.empty()) {
    guarded([&] {
      const fs::path root = graph_.root;
      for (const std::string& text : write_view(graph_, store_, items, root / "out"))
        emit({"warn", -1, 0, {{"text", text}}});
      summary_.reports = write_reports(graph_, store_, items, root / "reports", summary_.run_id);
      if (options_.whole) write_view_mark(graph_, root / "out", summary_.reports);
    });
  }
  if (stop_level_ == 2)
    summary_.exit_code = kRunInterrupted;
  else if (!summary_.store_error.empty())
    summary_.exit_code = kRunStore;
  else if (summary_.failed > 0)
    summary_.exit_code = kRunFailed;
  else if (summary_.conflicts > 0 && options_.strict)
    summary_.exit_code = kRunMismatch;
  else if (summary_.blocked > 0 || unfinished > 0)
    summary_.exit_code = kRunIncomplete;
  summary_.wall_s = runner_.now() - started_s_;
  refresh_state();
  try {
    folder_->write_progress(state_);
    folder_->write_summary(graph_, summary_);
  } catch (const support::IoError& error) {
    if (summary_.store_error.empty()) summary_.store_error = error.diagnostics().front().message;
    if (summary_.exit_code == kRunDone) summary_.exit_code = kRunStore;
  }
  emit({"end", -1, 0, to_json(graph_, summary_)});
  return std::move(summary_);
}

}  // namespace pe::pipeline
