#include "pipeline/run/execution.h"

#include <signal.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "pipeline/run/start_checks.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

constexpr double kTick = 0.25;
constexpr double kLongestWait = 0.1;  // an interrupt that comes just before a wait is seen after it
constexpr int kLookAhead = 64;        // ready tasks
constexpr double kLastWords_s = 10;   // after the grace, once an exception has ended the loop

/// "; input missing: 'texts' (fetch.path of text)": an input file that a task above `i` needs. Keys hold its content,
/// so no result can be found without it. Empty when there is none.
std::string missing_file_above(const Graph& graph, std::size_t i) {
  std::set<std::size_t> seen{i};
  std::vector<std::size_t> open{i};
  while (!open.empty()) {
    const Task& task = graph.tasks[open.back()];
    open.pop_back();
    for (const ExternalInput& external : task.externals) {
      if (!external.content->missing.empty())
        return cat("; input missing: ", support::quote(external.content->missing), " (", external.field, " of ",
                   task.id, ")");
    }
    for (const Edge& edge : task.inputs) {
      if (seen.insert(edge.producer).second) open.push_back(edge.producer);
    }
  }
  return "";
}

}  // namespace

Execution::Execution(const Graph& graph, const Plan& plan, Store& store, Runner& runner, RunListener& listener,
                     const RunOptions& options, const StopFunction& stop)
    : run_(graph, plan, store, runner, listener, options),
      stop_(stop),
      estimate_(graph, plan, options.expected_s),
      slots_(options.capacity),
      keys_(keys_of(graph)) {}

RunSummary Execution::run() {
  begin();
  std::exception_ptr mistake;
  std::string io_error;
  while (true) {
    try {
      if (!io_error.empty()) run_.store_failed(std::exchange(io_error, {}));
      loop();
      break;
    } catch (const support::IoError& error) {
      io_error = error.diagnostics().front().message;
    } catch (const std::exception& error) {
      if (!mistake) run_.mistake(error.what());
      if (!mistake) mistake = std::current_exception();
    }
    if (!go_on_to_stop()) break;
  }
  if (!mistake) return end();
  try {
    end();
  } catch (const std::exception&) {
    // The first mistake is reported.
  }
  std::rethrow_exception(mistake);
}

bool Execution::go_on_to_stop() {
  run_.no_new_starts = true;
  const double now = run_.runner.now();
  if (!std::exchange(stops_for_an_error_, true)) {
    store_failure_told_ = true;
    if (stop_since_s_ < 0) stop_since_s_ = now;
    run_.stop_level = std::max(run_.stop_level, 1);
    run_.shown.stopping = true;
    publisher_->stop_verifying();
    attempts_->signal_all(SIGTERM);
  }
  return !is_late();
}

bool Execution::is_late() const {
  return run_.stop_level >= 2 || run_.runner.now() - stop_since_s_ > run_.options.grace_s + kLastWords_s;
}

// ---- set-up

void Execution::begin() {
  const RunOptions& options = run_.options;
  started_s_ = last_progress_s_ = run_.runner.now();
  refuse_impossible(run_.graph, run_.plan, options.capacity, options.only);
  if (options.check_configs) check_configs(run_.graph, run_.plan, options.check_patience_s, stop_);
  run_.states = std::make_unique<TaskStates>(run_.graph, run_.plan, estimate_.seconds(), options.only);
  run_.shown.phases = run_.states->phases();
  run_.folder = std::make_unique<RunFolder>(run_.store, run_.graph, run_.plan, options);
  run_.summary.run_id = run_.shown.run_id = run_.folder->run_id();
  LeaseOptions lease_options = options.lease;
  lease_options.run = run_.summary.run_id;
  lease_options.pipeline = run_.graph.name;
  if (!lease_options.now) lease_options.now = [this] { return run_.runner.now(); };
  run_.leases = std::make_unique<Leases>(run_.store.leases_folder(), lease_options);
  publisher_ = std::make_unique<PublishThreads>(run_.store, options.publish_threads, [this] { run_.runner.wake(); });
  if (!options.join) names_ = std::make_unique<FriendlyNames>(run_);
  publishing_ = std::make_unique<PublishState>(run_, *publisher_, names_.get());
  checks_ = std::make_unique<InputChecks>(run_, *publisher_);
  attempts_ = std::make_unique<Attempts>(
      run_, *publishing_, *checks_, estimate_, [this](std::size_t i) { return reuse_if_there(i); },
      [this](const Slot& slot) { give_back(slot); });
  for (const LeaseOwner& owner : run_.leases->sweep())
    run_.emit({"note", -1, 0, {{"text", cat("broke the lease of ", owner.describe(), ": its process is gone")}}});
  take_over_plan();
}

void Execution::take_over_plan() {
  TaskStates& states = *run_.states;
  std::vector<std::size_t> to_run;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const PlannedTask& planned = run_.plan.tasks[i];
    TaskStates::State& state = states.at(i);
    state.forced = planned.forced;
    state.key = PackedDigest(planned.task_key);
    // A result that is only likely is looked up once its inputs are certain; no task may read it before.
    const bool certain = planned.key_is_exact && !state.forced;
    if (planned.bytes_wanted) state.bytes_wanted.edit().insert(TaskStates::kWhole);
    if (certain && planned.usable() && planned.result)
      states.add_result(i, TaskStates::kWhole, PackedResult(*planned.result));
    for (std::size_t k = 0; k < planned.snapshots.size(); ++k) {
      const PlannedSnapshot& snapshot = planned.snapshots[k];
      if (snapshot.bytes_wanted) state.bytes_wanted.edit().insert(static_cast<int>(k));
      if (certain && snapshot.usable() && snapshot.result)
        states.add_result(i, static_cast<int>(k), PackedResult(*snapshot.result));
    }
    if (planned.state == TaskState::kNotNeeded) continue;
    if (!run_.options.only.empty() && !run_.options.only[i]) continue;
    if (planned.state != TaskState::kReuse) {
      to_run.push_back(i);
      continue;
    }
    states.set_phase(i, TaskPhase::kReused);
    // A kill between a record and its hint leaves the hint out; it is caught up with here.
    if (run_.store.hint(run_.task(i).plan_key) != planned.task_key)
      run_.cache_changes([&] { run_.store.set_hint(run_.task(i).plan_key, planned.task_key); });
  }
  for (const std::size_t i : to_run) states.want(i);
  Json counts = Json::object();
  for (const auto& [phase, count] : states.counts()) counts[std::string(phase_name(phase))] = count;
  run_.emit({"plan", -1, 0, {{"tasks", counts}, {"capacity", describe(run_.options.capacity)}}});
}

// ---- the loop

void Execution::loop() {
  while (true) {
    poll_stop();
    collect_answers();
    if (!stops_for_an_error_) start_ready();
    if (is_over()) break;
    // An exception may have left an attempt that no answer will end.
    if (stops_for_an_error_ && attempts_->running().empty() && is_late()) break;
    double timeout = kLongestWait;
    if (next_wake_s_ >= 0) timeout = std::clamp(next_wake_s_ - run_.runner.now(), 0.001, kLongestWait);
    if (heard_.empty()) {
      for (RunnerEvent& event : run_.runner.wait(timeout)) heard_.push_back(std::move(event));
    }
    while (!heard_.empty()) {
      const RunnerEvent event = std::move(heard_.front());
      heard_.pop_front();
      if (event.kind == RunnerEvent::Kind::kExit)
        attempts_->on_exit(event);
      else
        attempts_->on_message(event);
    }
    if (run_.runner.now() - last_tick_s_ >= kTick) tick();
  }
}

bool Execution::is_over() const {
  if (!attempts_->running().empty() || !attempts_->ending().empty()) return false;
  if (run_.no_new_starts || run_.stop_level > 0) return true;
  return run_.states->ready().empty() && checks_->reading().empty();
}

void Execution::poll_stop() {
  const int level = stop_ ? stop_() : 0;
  const std::size_t running = attempts_->running().size();
  if (level > 0 && run_.stop_level == 0) {
    run_.stop_level = 1;
    run_.shown.stopping = true;
    stop_since_s_ = run_.runner.now();
    run_.emit({"stop", -1, 0, {{"level", 1}, {"running", running}}});
    publisher_->stop_verifying();
    attempts_->signal_all(SIGTERM);
  }
  if (level > 1 && run_.stop_level == 1) {
    run_.stop_level = 2;
    run_.emit({"stop", -1, 0, {{"level", 2}, {"running", running}}});
    attempts_->signal_all(SIGKILL);
  }
  if (!run_.summary.store_error.empty() && !std::exchange(store_failure_told_, true)) {
    if (stop_since_s_ < 0) stop_since_s_ = run_.runner.now();
    publisher_->stop_verifying();
    attempts_->signal_all(SIGTERM);
  }
  const bool asked = stop_since_s_ >= 0 && run_.stop_level < 2;
  if (asked && !grace_over_ && run_.runner.now() - stop_since_s_ > run_.options.grace_s && running > 0) {
    grace_over_ = true;
    run_.warn(cat("stages did not stop within ", support::short_duration(run_.options.grace_s), "; killing them"));
    attempts_->signal_all(SIGKILL);
  }
}

bool Execution::collect_answers() {
  bool any = false;
  // An ended job may submit more jobs, which may finish immediately.
  for (auto answers = publisher_->collect_published(); !answers.empty(); answers = publisher_->collect_published()) {
    for (const PublishAnswer& answer : answers) attempts_->on_published(answer);
    any = true;
  }
  for (const VerifyAnswer& answer : publisher_->collect_verified()) {
    const std::size_t i = answer.job.task;
    any = true;
    if (!answer.failed.empty()) run_.store_failed(answer.failed);
    if (answer.job.ticket != 0) {
      attempts_->on_verified(answer);
      continue;
    }
    const auto damaged = checks_->take(answer);
    if (!damaged || run_.states->phase(i) != TaskPhase::kVerifying) continue;  // an input went meanwhile
    if (damaged->empty())
      run_.states->make_ready_again(i);
    else
      attempts_->on_damaged_inputs(i, *damaged);
  }
  return any;
}

void Execution::process_ready_tasks() {
  while (const auto news = run_.states->next_event()) {
    if (news->kind == TaskStates::TaskEvent::Kind::kInputsSettled) {
      refresh(news->task);
      continue;
    }
    const TaskStates::State& state = run_.states->at(news->task);
    Json detail{{"reason", *state.reason}};
    if (!state.blocked_by->empty()) detail["root"] = *state.blocked_by;
    run_.emit({"block", static_cast<std::int64_t>(news->task), 0, std::move(detail)});
  }
}

void Execution::refresh(std::size_t i) {
  TaskStates& states = *run_.states;
  TaskStates::State& state = states.at(i);
  const Task& task = run_.task(i);
  TaskInputs inputs = states.inputs_of(i);
  if (task.allow_partial && inputs.all_inputs_missing()) {
    const auto& [number, why] = *inputs.missing.begin();
    states.block(i, cat("none of the results that it gathers is present, such as ",
                        producer_id(run_.graph, task.inputs[number]), ": ", why, missing_file_above(run_.graph, i)));
    return;
  }
  state.key = PackedDigest(keys_->task_key(run_.graph, task, inputs.digests));
  checks_->forget(i);
  if (const auto twin = run_.plan.tasks[i].same_as; twin && states.at(*twin).made) state.forced = false;
  if (!state.forced && reuse_if_there(i)) return;
  if (inputs.diverged_parent.empty()) {
    if (!ask_for_bytes(i)) states.set_phase(i, TaskPhase::kReady);
    return;
  }
  if (!publishing_->inherit_divergence(i, std::move(inputs))) return;
  state.forced = false;
  states.set_phase(i, TaskPhase::kDone);
}

/// The plan asks for the bytes of inputs that will certainly be read. A task whose key was computed only now may find
/// known contents of an input without its bytes here: then its producer comes first.
bool Execution::ask_for_bytes(std::size_t i) {
  TaskStates& states = *run_.states;
  std::set<std::size_t> producers;
  for (const Edge& edge : run_.task(i).inputs) {
    const auto result = states.result_of(edge);
    const OutputRecord* output = result ? result->output(edge.output) : nullptr;
    if (!output || !output->absent) continue;
    if (!states.is_own(edge.producer)) {
      states.block(i, cat("the contents of ", producer_id(run_.graph, edge),
                          " are known and not here; submit the pipeline again, which makes them first"));
      return true;
    }
    const int number = states.snapshot_number(edge);
    states.at(edge.producer).bytes_wanted.edit().insert(number);
    states.drop_result(edge.producer, number);
    producers.insert(edge.producer);
  }
  for (const std::size_t producer : producers) {
    run_.note(producer, cat("its result is known and not here, and ", run_.task(i).id, " needs it"));
    if (!is_unfinished(states.phase(producer))) states.look_again(producer);
  }
  if (!producers.empty()) states.look_again(i);
  return !producers.empty();
}

bool Execution::reuse_if_there(std::size_t i) {
  bool there = true;  // also where the store cannot be read: then the run ends
  return !run_.store_changes([&] { there = take_if_there(i); }) || there;
}

bool Execution::take_if_there(std::size_t i) {
  TaskStates& states = *run_.states;
  TaskStates::State& state = states.at(i);
  const Task& task = run_.task(i);
  const auto there = [&](std::int64_t step, int number) -> PackedResult {
    const PackedResult packed = run_.store.find_packed({state.key.hex(), step}, true);
    if (!packed) return {};
    Result result = packed.unpack();
    const Presence presence = run_.store.presence(result, true);
    if (presence == Presence::kGone) return {};
    if (presence == Presence::kKnown && state.bytes_wanted->count(number) != 0) return {};
    return PackedResult(result);
  };
  if (!task.is_trajectory()) {
    auto result = there(-1, TaskStates::kWhole);
    if (!result) return false;
    states.add_result(i, TaskStates::kWhole, std::move(result));
  } else {
    bool all = true;
    for (const std::size_t k : states.needed_snapshots(i)) {
      auto result = there(task.snapshots[k].step, static_cast<int>(k));
      if (result)
        states.add_result(i, static_cast<int>(k), std::move(result));
      else
        all = false;
    }
    if (!all) return false;
  }
  run_.release(i);  // held while an earlier stage of it was on its way out, or just taken
  run_.cache_changes([&] { run_.store.set_hint(task.plan_key, state.key.hex()); });
  states.set_phase(i, state.made ? TaskPhase::kDone : TaskPhase::kReused);
  if (!state.made) run_.emit({"reuse", static_cast<std::int64_t>(i), 0, {{"key", state.key.hex()}}});
  return true;
}

void Execution::start_ready() {
  next_wake_s_ = -1;
  do {
    process_ready_tasks();
    if (run_.no_new_starts || run_.stop_level > 0) return;
    start_in_order();
  } while (collect_answers() || run_.states->has_news());
}

void Execution::start_in_order() {
  TaskStates& states = *run_.states;
  std::vector<const Resources*> refused;
  std::optional<std::size_t> head;  // the most urgent task that waits for more of the machine
  head_starts_s_.reset();
  bool starved = false;
  int looked_ahead = 0;
  // Slots are taken in order of urgency. A small task may pass a large one that does not fit now, but not so that the
  // large one never fits.
  for (auto next = states.ready().first(); next; next = states.ready().after(*next)) {
    const std::size_t i = *next;
    const Task& task = run_.task(i);
    bool passed = false;
    const auto check = [&] {
      passed = checks_->passed(i);
      if (!passed && checks_->has_room()) checks_->begin(i);
    };
    if (!run_.store_changes(check)) return;
    if (!passed || slots_.full()) {
      // Inputs are read a few tasks ahead of their slots.
      if (++looked_ahead > kLookAhead) break;
      continue;
    }
    if (attempts_->not_before_s(i) > run_.runner.now()) {
      wake_at(attempts_->not_before_s(i));
      continue;
    }
    if (attempts_->is_busy(i)) continue;
    if (refused.size() < 64 && std::any_of(refused.begin(), refused.end(), [&](const Resources* demand) {
          return demand->cpus <= task.resources.cpus && demand->mem_bytes <= task.resources.mem_bytes &&
                 demand->gpus <= task.resources.gpus && demand->pools == task.resources.pools;
        })) {
      continue;  // no smaller than one that did not fit a moment ago
    }
    if (head && !may_pass(i, *head)) continue;
    // Another task may have published the same key meanwhile.
    if (!states.at(i).forced && reuse_if_there(i)) continue;
    const auto slot = slots_.take(task.resources, attempts_->mem_factor(i), &gpu_leases_);
    if (!slot) {
      refused.push_back(&task.resources);
      starved = true;
      // Tasks that only a pool or another program's GPU holds back reserve nothing.
      if (!head && !slots_.has_room(task.resources, attempts_->mem_factor(i))) head = i;
      continue;
    }
    if (!attempts_->start(i, *slot)) give_back(*slot);
    if (attempts_->not_before_s(i) > run_.runner.now()) wake_at(attempts_->not_before_s(i));
    if (run_.no_new_starts) return;
  }
  if (starved && attempts_->running().empty()) wake_at(run_.runner.now() + 1);  // GPUs that another program holds
}

bool Execution::may_pass(std::size_t i, std::size_t head) {
  const Resources& demand = run_.task(i).resources;
  if (slots_.has_room_beside(demand, attempts_->mem_factor(i), run_.task(head).resources, attempts_->mem_factor(head)))
    return true;
  const double expected = estimate_.expected_s(i);
  if (expected < 0) return false;
  if (!head_starts_s_) head_starts_s_ = earliest_start_s(head);
  return run_.runner.now() + expected <= *head_starts_s_;
}

/// When enough of the machine is free, should what runs take as long as expected; now where that is not known.
double Execution::earliest_start_s(std::size_t i) const {
  const double now = run_.runner.now();
  std::vector<std::pair<double, const Slot*>> ends;
  for (const auto& [ticket, attempt] : attempts_->running()) {
    const double expected = estimate_.expected_s(attempt.task);
    ends.emplace_back(expected < 0 ? now : std::max(now, attempt.started_s + expected), &attempt.slot);
  }
  std::sort(ends.begin(), ends.end());
  Slots free = slots_;
  for (const auto& [end_s, slot] : ends) {
    free.give_back(*slot);
    if (free.has_room(run_.task(i).resources, attempts_->mem_factor(i))) return end_s;
  }
  return now;
}

void Execution::wake_at(double when_s) {
  if (next_wake_s_ < 0 || when_s < next_wake_s_) next_wake_s_ = when_s;
}

void Execution::give_back(const Slot& slot) {
  for (const std::string& id : slot.gpus) gpu_leases_.give_back(id, slot.gpu_units);
  slots_.give_back(slot);
}

void Execution::tick() {
  last_tick_s_ = run_.runner.now();
  attempts_->enforce_limits();
  attempts_->tend_leases();
  refresh_shown();
  run_.tell_state();
  if (last_tick_s_ - last_progress_s_ < 1) return;
  last_progress_s_ = last_tick_s_;
  run_.folder->write_progress(run_.shown);
}

void Execution::refresh_shown() {
  RunState& shown = run_.shown;
  shown.now_s = run_.runner.now();
  shown.counts = run_.states->counts();
  shown.running.clear();
  for (const auto& [ticket, attempt] : attempts_->running()) {
    shown.running.push_back(
        {attempt.task, attempt.number, attempt.started_s, estimate_.expected_s(attempt.task), attempt.progress});
  }
  for (const auto& [ticket, attempt] : attempts_->ending()) {
    const char* what = attempt.verifying_inputs ? "verifying inputs" : "publishing";
    shown.running.push_back({attempt.task, attempt.number, attempt.started_s, -1, {{"what", what}}});
  }
  for (const auto& [task, reading] : checks_->reading()) {
    shown.running.push_back({task,
                             0,
                             reading.started_s,
                             -1,
                             {{"what", "verifying inputs, MB"},
                              {"done", *reading.job.bytes_read / 1000000},
                              {"total", reading.bytes / 1000000}}});
  }
  std::erase_if(shown.elsewhere,
                [&](const auto& entry) { return run_.states->phase(entry.first) != TaskPhase::kReady; });
  if (shown.now_s >= next_estimate_s_) {
    // The time of an estimate grows with the tasks: 30,000 of them are looked at every 15 s.
    next_estimate_s_ = shown.now_s + static_cast<double>(run_.states->size()) / 2000;
    const double left_s = estimate_.left_s(*run_.states, attempts_->running(), shown.now_s, run_.options.capacity);
    end_s_ = left_s < 0 ? -1 : shown.now_s + left_s;
  }
  shown.eta_s = end_s_ < 0 ? -1 : std::max(0.0, end_s_ - shown.now_s);
}

// ---- the end

RunSummary Execution::end() {
  publisher_.reset();
  for (const auto& [i, reading] : checks_->reading()) {
    if (run_.states->phase(i) == TaskPhase::kVerifying) run_.states->make_ready_again(i);
  }
  RunSummary& summary = run_.summary;
  std::size_t unfinished = 0;
  for (std::size_t i = 0; i < run_.states->size(); ++i) {
    const TaskPhase phase = run_.states->phase(i);
    summary.phases.push_back(phase);
    if (phase == TaskPhase::kReused) ++summary.reused;
    if (phase == TaskPhase::kBlocked && run_.states->is_own(i)) ++summary.blocked;
    if (is_unfinished(phase) || phase == TaskPhase::kInterrupted) ++unfinished;
  }
  if (names_ && summary.store_error.empty() && summary.mistake.empty()) names_->show_all();
  if (!summary.mistake.empty())
    summary.exit_code = support::kExitBug;
  else if (run_.stop_level == 2)
    summary.exit_code = kRunInterrupted;
  else if (!summary.store_error.empty())
    summary.exit_code = kRunStore;
  else if (summary.failed > 0)
    summary.exit_code = kRunFailed;
  else if (summary.conflicts > 0 && run_.options.strict)
    summary.exit_code = kRunMismatch;
  else if (summary.blocked > 0 || unfinished > 0)
    summary.exit_code = kRunIncomplete;
  summary.wall_s = run_.runner.now() - started_s_;
  refresh_shown();
  try {
    run_.folder->write_progress(run_.shown);
    run_.folder->write_summary(run_.graph, summary);
  } catch (const support::IoError& error) {
    if (summary.store_error.empty()) summary.store_error = error.diagnostics().front().message;
    if (summary.exit_code == kRunDone) summary.exit_code = kRunStore;
  }
  run_.emit({"end", -1, 0, to_json(run_.graph, summary)});
  return std::move(summary);
}

}  // namespace pe::pipeline
