#include "pipeline/run/attempts.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "pipeline/run/local_runner.h"
#include "pipeline/run/stage_event.h"
#include "pipeline/run/stage_log.h"
#include "pipeline/store/attempt.h"
#include "pipeline/store/host.h"
#include "pipeline/store/whole_write.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/json_fields.h"
#include "support/json_text.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;

namespace {

bool lacks_descriptors(const support::IoError& error) {
  return error.system_error() == EMFILE || error.system_error() == ENFILE;
}

}  // namespace

Attempts::Attempts(RunContext& run, PublishState& publishing, InputChecks& checks, RunEstimate& estimate,
                   ReuseFunction reuse_if_there, SlotFunction give_back)
    : run_(run),
      publishing_(publishing),
      checks_(checks),
      estimate_(estimate),
      reuse_if_there_(std::move(reuse_if_there)),
      give_back_(std::move(give_back)),
      tasks_(run.graph.tasks.size()) {}

bool Attempts::is_busy(std::size_t i) const {
  return busy_.count(run_.task(i).plan_key) != 0 || busy_.count(run_.states->at(i).key.hex()) != 0;
}

// ---- before the start

bool Attempts::start(std::size_t i, const Slot& slot) {
  const std::string& plan_key = run_.task(i).plan_key;
  bool leased = false;
  if (!run_.store_changes([&] { leased = lease(i); }) || !leased) return false;
  std::vector<fs::path> before;
  bool alone = false;
  const auto look = [&] {
    try {
      before = run_.store.attempts(plan_key);
      alone = orphan_is_gone(i, before);
    } catch (const support::IoError& error) {
      if (!is_denied(error)) throw;
      fail_for_closed_folder(i, error);
    }
  };
  if (!run_.store_changes(look) || !alone) return false;  // and keeps the lease
  if (tasks_[i].first_number == 0) run_.cache_changes([&] { read_earlier_tries(i, before); });
  Launch launch;
  ActiveAttempt attempt;
  try {
    attempt = make_attempt(i, slot);
    attempt.alone = before.empty() && attempt.number == 1;
    write_task_file(attempt, before);
    tasks_[i].tries.last_step = std::max(tasks_[i].tries.last_step, attempt.started_step);
    launch.ticket = ++last_ticket_;
    launch.directory = attempt.folder;
    launch.log = attempt.folder / "stage.log";
    launch.arguments = {run_.task(i).stage->executable, "--task", (attempt.folder / "task.json").string()};
    launch.environment = stage_environment(slot.gpus, run_.task(i).stage->name, run_.graph.environment);
  } catch (const support::IoError& error) {
    if (lacks_descriptors(error) && may_wait_for_descriptors()) return postpone(i, attempt);
    const bool taken = !run_.leases->holds(plan_key);
    run_.release(i);
    if (taken)
      wake_at(i, run_.runner.now() + 0.1);  // this run slept past its lease; the new owner tidied the folder
    else if (is_denied(error))
      fail_for_closed_folder(i, error);
    else
      run_.store_failed(error.diagnostics().front().message);
    return false;
  } catch (const support::ArtifactError& error) {  // a collection with a damaged manifest that was not read before
    blame_inputs(std::move(attempt), error.diagnostics().front().message);
    return false;
  }
  return this->launch(std::move(attempt), launch);
}

/// Another user's folder of this task says nothing about the rest of the store: other tasks continue.
void Attempts::fail_for_closed_folder(std::size_t i, const support::IoError& error) {
  run_.release(i);
  fail(i, Outcome::kNode, error.diagnostics().front().message, {});
}

/// While stages run, one that ends frees descriptors. Without any, other programs may free some, but not for ever.
bool Attempts::may_wait_for_descriptors() {
  constexpr int kMostWaits = 10;
  waits_alone_ = running_.empty() ? waits_alone_ + 1 : 0;
  return waits_alone_ <= kMostWaits;
}

/// Want of descriptors is like want of a slot: the task starts once others have ended.
bool Attempts::postpone(std::size_t i, const ActiveAttempt& attempt) {
  if (!std::exchange(descriptors_told_, true))
    run_.warn("no more open files are allowed (ulimit -n); some tasks start later");
  run_.cache_changes([&] {
    if (!attempt.folder.empty()) support::remove_tree(attempt.folder);
  });
  run_.release(i);
  wake_at(i, run_.runner.now() + 1);
  return false;
}

bool Attempts::lease(std::size_t i) {
  AttemptHistory& tried = tasks_[i];
  const Leases::Answer answer = run_.acquire(i);
  if (answer.broken) {
    run_.note(
        i, cat("broke the lease of ", answer.broken->pid == 0 ? "an owner without a name" : answer.broken->describe(),
               ": ", answer.why));
  }
  if (answer.acquired) {
    tried.lease_polls = 0;
    // The earlier owner may have left the result, which did not exist when this task became ready.
    return run_.states->at(i).forced || !reuse_if_there_(i);
  }
  const std::string owner = answer.holder ? answer.holder->describe() : "an owner whose lease cannot be read";
  if (tried.lease_polls == 0) {
    Json detail{{"owner", owner}, {"waits", run_.options.wait_lease}};
    if (answer.holder) {
      detail["host"] = answer.holder->where.host;
      detail["pid"] = answer.holder->pid;
      detail["run"] = answer.holder->run;
    }
    run_.emit({"wait", static_cast<std::int64_t>(i), 0, std::move(detail)});
  }
  if (!run_.options.wait_lease) {
    run_.states->at(i).reason = cat("worked on by ", owner);
    run_.states->set_phase(i, TaskPhase::kInterrupted);
    return false;
  }
  run_.shown.elsewhere[i] = owner;
  // Often at first, since most tasks are short; then about once a second.
  wake_at(i, run_.runner.now() + std::min(1.0, 0.05 * (1 << std::min(tried.lease_polls, 5))));
  ++tried.lease_polls;
  return false;
}

/// A stage of a run that died may still be on its way out. It ends by itself, since its pipe has closed.
bool Attempts::orphan_is_gone(std::size_t i, const std::vector<fs::path>& before) {
  const auto orphan = find_orphan(before);
  if (!orphan) return true;
  AttemptHistory& tried = tasks_[i];
  const double now = run_.runner.now();
  if (tried.orphan_since_s < 0) {
    tried.orphan_since_s = now;
    run_.note(i, cat("waits for process ", orphan->pid, " of an earlier run to leave ", orphan->folder.string()));
  } else if (now - tried.orphan_since_s > run_.options.grace_s) {
    if (!orphan->certain) return true;  // its pipe closed long ago
    try {
      end_orphan(*orphan);
    } catch (const support::IoError& error) {  // another user's: waiting longer does not help
      run_.release(i);
      fail(i, Outcome::kNode, error.diagnostics().front().message, orphan->folder);
      return false;
    }
  }
  wake_at(i, now + 0.2);
  return false;
}

/// A joined run consists of many processes. The limits on requeues and on failures are therefore read from the records
/// of earlier attempts of the run.
void Attempts::read_earlier_tries(std::size_t i, const std::vector<fs::path>& before) {
  if (!run_.options.join) return;
  RetryCounts& tries = tasks_[i].tries;
  for (const fs::path& folder : before) {
    const Json exit = read_of_attempt(folder, "exit.json");  // one that is closed is another user's run's
    if (!exit.is_object() || support::text_in(exit, "run") != run_.summary.run_id) continue;
    const auto step = support::field_or(exit, "step", std::int64_t{-1});
    const std::string outcome = support::text_in(exit, "class");
    const bool requeued =
        outcome == outcome_name(Outcome::kCheckpointed) || outcome == outcome_name(Outcome::kInterrupted);
    const auto is = [&](Outcome one) { return outcome == outcome_name(one); };
    if (is(Outcome::kTransient) || is(Outcome::kOutOfMemory) || is(Outcome::kNetwork)) ++tries.failed;
    tries.requeued = requeued && step <= tries.last_step ? tries.requeued + 1 : 0;
    tries.last_step = std::max(tries.last_step, step);
  }
}

ActiveAttempt Attempts::make_attempt(std::size_t i, const Slot& slot) {
  AttemptHistory& tried = tasks_[i];
  ActiveAttempt attempt;
  attempt.task = i;
  attempt.slot = slot;
  attempt.folder = run_.store.new_attempt(run_.task(i).plan_key, &attempt.number);
  tried.number = attempt.number;
  if (tried.first_number == 0) tried.first_number = attempt.number;
  attempt.inputs = run_.states->inputs_of(i);
  attempt.started_s = run_.runner.now();
  attempt.started_unix = support::unix_time();
  attempt.started_step = attempt.step = tried.tries.last_step;
  attempt.snapshots = checks_.wanted_snapshots(i);
  return attempt;
}

bool Attempts::launch(ActiveAttempt attempt, const Launch& launch) {
  const std::size_t i = attempt.task;
  const std::string& plan_key = run_.task(i).plan_key;
  const auto program = programs_.look(*run_.task(i).stage, run_.task(i).hash_build);
  if (program.state != ProgramWatch::State::kSame) {
    const bool other = program.state == ProgramWatch::State::kOther;
    after_failure(attempt, other ? Outcome::kOtherProgram : Outcome::kNode, program.why, false);
    return false;
  }
  try {
    run_.runner.start(launch);
  } catch (const support::IoError& error) {
    if (lacks_descriptors(error) && may_wait_for_descriptors()) return postpone(i, attempt);
    after_failure(attempt, Outcome::kNode, error.diagnostics().front().message, false);
    return false;
  }
  const std::int64_t pid = run_.runner.pid(launch.ticket);
  const std::uint64_t process = process_start(pid);
  run_.leases->name_stage(plan_key, pid, process);
  run_.store_changes([&] {
    try {
      write_owner(attempt.folder, run_.summary.run_id, pid, process, attempt.spent_before_s);
    } catch (const support::IoError&) {
      if (run_.leases->holds(plan_key)) throw;  // else the folder went with the lease; the next beat ends this attempt
    }
  });
  const std::string key = run_.states->at(i).key.hex();
  run_.states->set_phase(i, TaskPhase::kRunning);
  busy_.insert(plan_key);
  if (!run_.task(i).is_trajectory()) busy_.insert(key);
  Json detail{{"key", key},
              {"work", attempt.folder.string()},
              {"cpus", attempt.slot.cpus},
              {"mem_bytes", attempt.slot.mem_bytes},
              {"resumed", attempt.resumed},
              {"log", launch.log.string()},
              {"pid", pid}};
  if (!attempt.slot.gpus.empty()) detail["gpus"] = attempt.slot.gpus;
  const int number = attempt.number;
  waits_alone_ = 0;
  running_.emplace(launch.ticket, std::move(attempt));
  run_.emit({"start", static_cast<std::int64_t>(i), number, std::move(detail)});
  return true;
}

std::string Attempts::program_change(const ActiveAttempt& attempt) {
  const Task& task = run_.task(attempt.task);
  if (!task.hash_build) return "";
  const auto program = programs_.look(*task.stage, true);
  return program.state == ProgramWatch::State::kSame ? "" : program.why;
}

/// As if the stage had started and ended with exit code 3.
void Attempts::blame_inputs(ActiveAttempt attempt, const std::string& reason) {
  const std::size_t i = attempt.task;
  const std::uint64_t ticket = ++last_ticket_;
  attempt.outcome = Outcome::kInput;
  attempt.reason = reason;
  run_.states->set_phase(i, TaskPhase::kRunning);
  busy_.insert(run_.task(i).plan_key);
  busy_.insert(run_.states->at(i).key.hex());
  ending_.emplace(ticket, std::move(attempt));
  act_on_exit(ticket);
}

// ---- while they run

void Attempts::on_message(const RunnerEvent& event) {
  const auto found = running_.find(event.ticket);
  if (found == running_.end()) return;
  ActiveAttempt& attempt = found->second;
  StageEvent said = read_stage_event(event.message);
  const auto step = said.integer("step");
  switch (said.kind) {
    case StageEvent::Kind::kProgress:
      if (const auto done = said.integer("done"); done && !attempt.reports_checkpoints)
        attempt.step = std::max(attempt.step, *done);
      attempt.progress = std::move(said.detail);
      return;
    case StageEvent::Kind::kMachine:
      attempt.machine = std::move(said.detail);
      return;
    case StageEvent::Kind::kMemory:
      attempt.peak_rss_bytes = said.integer("peak_rss_bytes").value_or(attempt.peak_rss_bytes);
      return;
    case StageEvent::Kind::kSnapshot:
      // Whether divergence may be published is decided when the stage has ended.
      if (said.detail.contains("status") && said.detail["status"] == "diverged") return;
      if (!program_change(attempt).empty()) return;
      for (const std::size_t k : attempt.snapshots) {
        if (run_.task(attempt.task).snapshots[k].step == step.value_or(-1))
          publishing_.submit(event.ticket, attempt, static_cast<int>(k), ResultStatus::kDone);
      }
      return;
    case StageEvent::Kind::kCheckpoint:
      if (!step) break;
      if (!std::exchange(attempt.reports_checkpoints, true)) attempt.step = attempt.started_step;
      attempt.step = std::max(attempt.step, *step);
      break;
    case StageEvent::Kind::kText:
      break;
  }
  if (may_tell(attempt, said.detail))
    run_.emit({said.name, static_cast<std::int64_t>(attempt.task), attempt.number, std::move(said.detail)});
}

/// A stage that says very much must not fill the disk with it.
bool Attempts::may_tell(ActiveAttempt& attempt, const Json& detail) {
  constexpr std::size_t kMostEvents = 100, kMostBytes = 64 * 1024;  // in a second
  if (const double now = run_.runner.now(); attempt.told_since_s < 0 || now - attempt.told_since_s >= 1) {
    tell_left_out(attempt);
    attempt.told_since_s = now;
    attempt.told = attempt.told_bytes = 0;
  }
  if (attempt.told < kMostEvents && attempt.told_bytes < kMostBytes) {
    ++attempt.told;
    attempt.told_bytes += support::json_text(detail).size();
    return true;
  }
  ++attempt.left_out;
  return false;
}

void Attempts::tell_left_out(ActiveAttempt& attempt) {
  if (attempt.left_out == 0) return;
  const auto count = static_cast<std::int64_t>(std::exchange(attempt.left_out, 0));
  Json detail{{"text", cat(support::with_commas(count), " events left out: it says too much in a second")}};
  run_.emit({"note", static_cast<std::int64_t>(attempt.task), attempt.number, std::move(detail)});
}

void Attempts::signal_all(int signal) {
  for (auto& [ticket, attempt] : running_) {
    attempt.stop_sent = true;
    run_.runner.signal(ticket, signal);
  }
}

void Attempts::enforce_limits() {
  const double now = run_.runner.now();
  for (auto& [ticket, attempt] : running_) {
    cut_stage_log(attempt.folder / "stage.log");
    const double limit = run_.task(attempt.task).resources.time_s;
    if (limit <= 0 || attempt.stop_sent || now - attempt.started_s < limit) continue;
    if (!attempt.timed_out) {
      attempt.timed_out = true;
      attempt.kill_at_s = now + run_.options.grace_s;
      run_.warn(attempt.task, attempt.number,
                cat("has run for ", support::short_duration(limit),
                    ", the time that its resources allow; asked it to save and stop"));
      run_.runner.signal(ticket, SIGTERM);
    } else if (attempt.kill_at_s >= 0 && now >= attempt.kill_at_s) {
      attempt.kill_at_s = -1;
      run_.runner.signal(ticket, SIGKILL);
    }
  }
}

bool Attempts::results_there(std::size_t i) const {
  const Task& task = run_.task(i);
  const auto there = [&](std::int64_t step) {
    const auto result = run_.store.find({run_.states->at(i).key.hex(), step});
    return result && run_.store.complete(*result);
  };
  if (!task.is_trajectory()) return there(-1);
  const auto needed = run_.states->needed_snapshots(i);
  return std::all_of(needed.begin(), needed.end(), [&](std::size_t k) { return there(task.snapshots[k].step); });
}

void Attempts::tend_leases() {
  std::vector<std::string> lost;
  run_.store_changes([&] { lost = run_.leases->send_heartbeats(); });
  for (auto& [ticket, attempt] : running_) {
    const std::size_t i = attempt.task;
    if (std::find(lost.begin(), lost.end(), run_.task(i).plan_key) != lost.end()) {
      attempt.lease_lost = true;
      run_.warn(
          i, attempt.number,
          "another run took it over while this one was stopped; it continues, and its result counts if it ends first");
    }
    if (attempt.lease_lost && !attempt.superseded && !attempt.stop_sent && !run_.states->at(i).forced &&
        results_there(i)) {
      attempt.superseded = true;
      run_.runner.signal(ticket, SIGTERM);
    }
  }
}

}  // namespace pe::pipeline
