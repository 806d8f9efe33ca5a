#include "pipeline/run/execution.h"

#include <signal.h>

#include <algorithm>
#include <fstream>

#include "pipeline/store/attempt.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::quote;

namespace {

constexpr std::size_t kTailLines = 20;

std::vector<std::string> last_lines(const fs::path& path, std::size_t count) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  file.seekg(0, std::ios::end);
  const auto size = static_cast<std::int64_t>(file.tellg());
  const std::int64_t from = std::max<std::int64_t>(0, size - 65536);
  file.seekg(from);
  std::string text(static_cast<std::size_t>(size - from), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  std::vector<std::string> lines = support::split(text, '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  for (std::string& line : lines) line = support::replace_invalid_utf8(line);
  return lines;
}

}  // namespace

// ---- ends of stages

void Execution::on_exit(const RunnerEvent& event) {
  const auto found = running_.find(event.ticket);
  if (found == running_.end()) return;
  Active& active = ending_[event.ticket] = std::move(found->second);
  running_.erase(found);
  const std::size_t i = active.task;
  Node& node = nodes_[i];
  give_back(active.slot);
  active_reports_steps_.erase(i);
  active.exit = event;
  if (active.peak_rss_bytes > 0) active.exit.peak_rss_bytes = active.peak_rss_bytes;
  active.outcome = classify(event, active.stop_sent || active.superseded);
  active.reason = describe_exit(event);
  const double limit = graph_.tasks[i].resources.time_s;
  const bool saved = active.outcome == Outcome::kDone || active.outcome == Outcome::kDiverged ||
                     active.outcome == Outcome::kCheckpointed;
  if (active.timed_out && !active.stop_sent && !saved) {
    active.outcome = Outcome::kTimeLimit;
    active.reason = cat("ran longer than ", support::short_duration(limit), ", the time that its resources allow (",
                        describe_exit(event), "): raise it with --set resources.NAME.time=");
  }
  active.moved = active.step > node.attempts.last_step;
  node.attempts.last_step = std::max(node.attempts.last_step, active.step);
  write_exit(active, event, active.outcome);
  emit({"exit",
        static_cast<std::int64_t>(i),
        active.attempt,
        {{"code", event.code},
         {"signal", event.signal},
         {"class", outcome_name(active.outcome)},
         {"wall_s", event.wall_s},
         {"cpu_s", event.cpu_s},
         {"peak_rss_bytes", active.exit.peak_rss_bytes}}});
  if (active.publishing == 0) conclude(event.ticket);
}

void Execution::conclude(std::uint64_t ticket) {
  Active& active = ending_.at(ticket);
  const std::size_t i = active.task;
  const Task& task = graph_.tasks[i];
  const bool ended_well = active.outcome == Outcome::kDone || active.outcome == Outcome::kDiverged;
  if (active.superseded || (!ended_well && !active.stop_sent && !leases_->holds(task.plan_key))) {
    // The result is there or on its way, made by another run: this attempt is not needed any more. Whoever took the task
    // may also have tidied the folder under it, which is how it then failed.
    const Active ended = take(ticket);
    leases_->release(task.plan_key);
    try {
      support::remove_tree(ended.folder / "out");
    } catch (const support::IoError&) {
    }
    nodes_[i].forced = false;
    set_phase(i, TaskPhase::kWaiting);
    evaluate(i);
    return;
  }
  if (active.outcome == Outcome::kDiverged && !task.record_divergence) {
    const Active ended = take(ticket);
    after_failure(i, ended, ended.outcome, "training diverged, and on_diverge is 'fail'", false);
    return;
  }
  if (active.outcome == Outcome::kDone || active.outcome == Outcome::kDiverged) {
    const ResultStatus status = active.outcome == Outcome::kDone ? ResultStatus::kDone : ResultStatus::kDiverged;
    active.concluded = true;
    active.broken.clear();  // a snapshot that was announced too early may be whole by now
    if (task.is_trajectory()) {
      // What was announced is published already; a stage may also just end with its files in place.
      for (const std::size_t k : active.snapshots) {
        if (active.published.count(k) == 0) submit(ticket, active, static_cast<int>(k), status);
      }
    } else {
      submit(ticket, active, -1, status);
    }
    if (active.publishing == 0) complete(ticket);
    return;
  }
  const Active ended = take(ticket);
  if (ended.outcome == Outcome::kInput && repair_inputs(i, ended)) return;
  after_failure(
      i, ended, ended.outcome,
      ended.outcome == Outcome::kInput ? ended.reason + "; the store's copies of its inputs are whole" : ended.reason,
      ended.moved);
}

Execution::Active Execution::take(std::uint64_t ticket) {
  const auto found = ending_.find(ticket);
  Active active = std::move(found->second);
  ending_.erase(found);
  const Task& task = graph_.tasks[active.task];
  busy_.erase(task.plan_key);
  busy_.erase(nodes_[active.task].key);
  return active;
}

void Execution::complete(std::uint64_t ticket) {
  const std::size_t i = ending_.at(ticket).task;
  const Task& task = graph_.tasks[i];
  Node& node = nodes_[i];
  // Work folders are tidied under the lease; without it, another run may be at work in a later one.
  const Active& ended = ending_.at(ticket);
  const bool whole = ended.broken.empty() && ended.changed.empty();
  if (!ended.unstored && whole && !ended.lease_lost) clean_up(task);
  const bool taken = ended.lease_lost || !leases_->holds(task.plan_key);
  const Active active = take(ticket);
  if (whole || active.unstored || taken) leases_->release(task.plan_key);
  if (!whole && taken) {
    // Whoever took the task while this run slept tidied its outputs away, and makes them.
    set_phase(i, TaskPhase::kWaiting);
    evaluate(i);
    return;
  }
  if (active.unstored) {
    node.reason = "its outputs could not be published";
    set_phase(i, TaskPhase::kInterrupted);
    return;
  }
  if (!active.changed.empty()) {
    after_failure(i, active, Outcome::kInput, active.changed, false);
    return;
  }
  if (!active.broken.empty()) {
    after_failure(i, active, Outcome::kBroken, cat("it ended well, but ", active.broken), false);
    return;
  }
  ++summary_.executed;
  auto& [sum, count] = known_labels_[task.label];
  sum += active.exit.wall_s;
  ++count;
  node.forced = false;
  const auto needed = needed_snapshots(i);
  if (std::any_of(needed.begin(), needed.end(),
                  [&](std::size_t k) { return node.snapshots.count(task.snapshots[k].label) == 0; })) {
    // One that was there when this attempt began was found damaged meanwhile: it goes on for that one.
    set_phase(i, TaskPhase::kWaiting);
    evaluate(i);
    return;
  }
  set_phase(i, TaskPhase::kDone);
  notify_readers(i);
}

void Execution::clean_up(const Task& task) {
  try {
    const auto attempts = store_.attempts(task.plan_key);
    const auto keep = task.is_trajectory() ? find_resumable(attempts) : std::nullopt;
    for (const fs::path& attempt : attempts) strip_attempt(attempt, keep && *keep == attempt);
  } catch (const support::IoError& error) {
    emit({"warn", -1, 0, {{"text", cat("could not tidy a work folder: ", error.diagnostics().front().message)}}});
  }
}

void Execution::write_exit(const Active& active, const RunnerEvent& event, Outcome outcome) {
  const Json json{{"schema", "pe-exit/1"},
                  {"code", event.code},
                  {"signal", event.signal},
                  {"class", outcome_name(outcome)},
                  {"wall_s", event.wall_s},
                  {"cpu_s", event.cpu_s},
                  {"peak_rss_bytes", active.exit.peak_rss_bytes},
                  {"ended", utc_text(unix_time())},
                  {"step", active.step}};
  try {
    support::write_file_atomically(active.folder / "exit.json", json.dump(1) + "\n", false);
  } catch (const support::IoError&) {
    // Told by the journal as well.
  }
}

void Execution::after_failure(std::size_t i, const Active& active, Outcome outcome, const std::string& reason,
                              bool moved) {
  Node& node = nodes_[i];
  const Task& task = graph_.tasks[i];
  try {
    // Half-written outputs are of no use to anyone; checkpoints and the log stay for the next attempt.
    support::remove_tree(active.folder / "out");
    support::remove_tree(active.folder / "inputs");
  } catch (const support::IoError&) {
  }
  Decision decision = decide(outcome, *task.retry, node.attempts, moved);
  const auto id = static_cast<std::int64_t>(i);
  const bool stopping = stop_level_ > 0 || active.stop_sent;
  // Between an attempt and the next the task stays this run's: another would count its attempts from the first again.
  const bool goes_on = decision.kind == Decision::Kind::kRetry || decision.kind == Decision::Kind::kRequeue;
  if (stopping || !goes_on) leases_->release(task.plan_key);
  if (decision.kind == Decision::Kind::kStop) {
    if (summary_.store_error.empty()) summary_.store_error = cat(task.id, " could not read or write (exit code 74)");
    fail(i, outcome, reason + ": reading or writing failed, or the disk is full", active.folder);
    no_new_starts_ = true;
    return;
  }
  if (stopping && decision.kind != Decision::Kind::kFail) {
    node.reason = reason;
    set_phase(i, TaskPhase::kInterrupted);
    ++summary_.interrupted;
    notify_readers(i);
    return;
  }
  switch (decision.kind) {
    case Decision::Kind::kRequeue:
      node.attempts.requeued = moved ? 0 : node.attempts.requeued + 1;
      if (node.attempts.requeued > 2) {
        leases_->release(task.plan_key);
        fail(i, Outcome::kNoProgress, cat(reason, " three times without a step"), active.folder);
        return;
      }
      emit({"requeue", id, active.attempt, {{"class", outcome_name(outcome)}, {"step", active.step}}});
      again(i, 0);
      return;
    case Decision::Kind::kRetry:
      ++node.attempts.failed;
      node.mem_factor *= decision.mem_factor;
      emit({"retry",
            id,
            active.attempt,
            {{"class", outcome_name(outcome)},
             {"reason", reason},
             {"delay_s", decision.delay_s},
             {"log", (active.folder / "stage.log").string()}}});
      again(i, decision.delay_s);
      return;
    default: {
      std::string why = outcome == Outcome::kCheckpointed ? reason + " twice without a step" : reason;
      const std::int64_t most = options_.capacity.mem_bytes;
      if (outcome == Outcome::kOutOfMemory && active.slot.mem_bytes >= most)
        why += cat("; it had all the memory there is, ", support::short_bytes(static_cast<double>(most)));
      fail(i, outcome == Outcome::kCheckpointed ? Outcome::kNoProgress : outcome, why, active.folder);
    }
  }
}

void Execution::fail(std::size_t i, Outcome outcome, const std::string& reason, const fs::path& attempt) {
  Node& node = nodes_[i];
  node.reason = reason;
  TaskFailure failure;
  failure.task = i;
  failure.outcome = outcome;
  failure.reason = reason;
  if (!attempt.empty()) {
    failure.log = (attempt / "stage.log").string();
    failure.tail = last_lines(attempt / "stage.log", kTailLines);
  }
  failure.rerun = options_.command;
  failure.rerun.push_back(graph_.tasks[i].id);
  set_phase(i, TaskPhase::kFailed);
  ++summary_.failed;
  emit({"fail",
        static_cast<std::int64_t>(i),
        node.number,
        {{"class", outcome_name(outcome)},
         {"reason", reason},
         {"tail", failure.tail},
         {"log", failure.log},
         {"rerun", shell_command(failure.rerun)}}});
  summary_.failures.push_back(std::move(failure));
  if (!options_.keep_going) no_new_starts_ = true;
  notify_readers(i);
}

void Execution::again(std::size_t i, double delay_s) {
  nodes_[i].not_before_s = runner_.now() + delay_s;
  set_phase(i, TaskPhase::kWaiting);
  set_phase(i, TaskPhase::kReady);
}

bool Execution::repair_inputs(std::size_t i, const Active& active) {
  Node& node = nodes_[i];
  if (node.input_repairs >= 1) return false;
  const Task& task = graph_.tasks[i];
  std::set<std::size_t> producers;
  bool again_there = false;
  const bool good = guarded([&] {
    for (const Edge& edge : task.inputs) {
      // Another reader found it first: it is on its way, or there again.
      if (repaired_.count(edge.producer)) again_there = true;
      const Result* result = result_of(edge);
      const OutputRecord* output = result ? result->output(edge.output) : nullptr;
      if (!output) continue;
      const auto bad = store_.damaged(*output);
      if (bad.empty()) continue;
      for (const std::string& digest : bad) store_.discard_object(digest);
      producers.insert(edge.producer);
      emit({"warn",
            static_cast<std::int64_t>(edge.producer),
            0,
            {{"text", cat("its output ", quote(edge.output), " was damaged in the store and is made again")}}});
      Node& producer = nodes_[edge.producer];
      if (edge.snapshot.empty())
        producer.result.reset();
      else
        producer.snapshots.erase(edge.snapshot);
    }
    support::remove_tree(active.folder / "out");
    support::remove_tree(active.folder / "inputs");
  });
  if (!good || (producers.empty() && !again_there)) return false;
  leases_->release(task.plan_key);   // its inputs come first, and anyone may make those
  ++node.input_repairs;
  emit({"retry",
        static_cast<std::int64_t>(i),
        active.attempt,
        {{"class", "input"}, {"reason", "a damaged input"}, {"delay_s", 0}}});
  set_phase(i, TaskPhase::kWaiting);
  repaired_.insert(producers.begin(), producers.end());
  for (const std::size_t producer : producers) {
    nodes_[producer].made = false;
    // Who was about to read it waits again.
    for (const std::size_t reader : readers_[producer]) {
      if (nodes_[reader].phase == TaskPhase::kReady) set_phase(reader, TaskPhase::kWaiting);
    }
    if (nodes_[producer].phase != TaskPhase::kRunning) {
      set_phase(producer, TaskPhase::kWaiting);
      evaluate(producer);
    }
  }
  if (producers.empty()) evaluate(i);
  return true;
}

}  // namespace pe::pipeline
