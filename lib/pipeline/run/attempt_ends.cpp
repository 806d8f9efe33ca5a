#include <sys/statvfs.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "pipeline/run/attempts.h"
#include "pipeline/run/stage_log.h"
#include "pipeline/store/attempt.h"
#include "pipeline/store/whole_write.h"
#include "support/clock.h"
#include "support/environment.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/json_text.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;
using support::quote;

namespace {

constexpr std::size_t kTailLines = 20;

void remove_leftovers(const fs::path& attempt) {
  try {
    // Half-written outputs are of no use to anyone; checkpoints and the log stay for the next attempt.
    support::remove_tree(attempt / "out");
    support::remove_tree(attempt / "inputs");
  } catch (const support::IoError&) {
    // `gc` takes them.
  }
}

bool ended_well(Outcome outcome) { return outcome == Outcome::kDone || outcome == Outcome::kDiverged; }

/// "; the disk of the store (…) has 12 KiB left": which of the disks that a stage writes to are nearly full, since most
/// programs end with any code then. After a failure to read or write, how full each is.
std::string lack_of_room(const fs::path& store, Outcome outcome) {
  constexpr double kLittle = 64e6;  // bytes
  if (ended_well(outcome) || outcome == Outcome::kCheckpointed || outcome == Outcome::kInterrupted) return "";
  const std::string temporary = support::variable("TMPDIR");
  const std::pair<const char*, fs::path> disks[] = {{"the store", store},
                                                    {"TMPDIR", temporary.empty() ? "/tmp" : temporary}};
  std::string text;
  for (const auto& [name, path] : disks) {
    struct statvfs room {};
    if (::statvfs(path.c_str(), &room) != 0) continue;
    const double bytes = static_cast<double>(room.f_bavail) * static_cast<double>(room.f_frsize);
    const bool no_names = room.f_files > 0 && room.f_favail == 0;
    if (bytes >= kLittle && !no_names && outcome != Outcome::kIo) continue;
    text += cat("; the disk of ", name, " (", path.string(), ") has ", support::short_bytes(bytes), " left",
                no_names ? " and takes no more files" : "");
  }
  return text;
}

/// @throws IoError when the store takes no file of a megabyte
void prove_writable(const fs::path& attempt) {
  if (!support::is_there(attempt)) return;  // it went with its lease
  const fs::path probe = attempt / "probe";
  support::write_file_atomically(probe, std::string(1 << 20, '.'), false);
  support::remove_tree(probe);
}

}  // namespace

ActiveAttempt* Attempts::find(std::uint64_t ticket) {
  for (auto* attempts : {&running_, &ending_}) {
    const auto found = attempts->find(ticket);
    if (found != attempts->end()) return &found->second;
  }
  return nullptr;
}

void Attempts::on_exit(const RunnerEvent& event) {
  const auto found = running_.find(event.ticket);
  if (found == running_.end()) return;
  ActiveAttempt& attempt = ending_[event.ticket] = std::move(found->second);
  running_.erase(found);
  const std::size_t i = attempt.task;
  give_back_(attempt.slot);
  tell_left_out(attempt);
  cut_stage_log(attempt.folder / "stage.log");
  attempt.exit = event;
  if (attempt.peak_rss_bytes > 0) attempt.exit.peak_rss_bytes = attempt.peak_rss_bytes;
  attempt.outcome = classify(event, attempt.stop_sent || attempt.superseded);
  attempt.reason = describe_exit(event);
  if (attempt.outcome == Outcome::kTransient && event.code == 1 && event.signal == 0 &&
      is_python_mistake(last_lines(attempt.folder / "stage.log", kTailLines)))
    attempt.outcome = Outcome::kPermanent;
  const bool saved = ended_well(attempt.outcome) || attempt.outcome == Outcome::kCheckpointed;
  if (attempt.timed_out && !attempt.stop_sent && !saved) {
    attempt.outcome = Outcome::kTimeLimit;
    attempt.reason = cat("ran longer than ", support::short_duration(run_.task(i).resources.time_s),
                         ", the time that its resources allow (", describe_exit(event),
                         "): raise it with --set resources.NAME.time=");
  }
  if (const std::string change = ended_well(attempt.outcome) ? program_change(attempt) : ""; !change.empty()) {
    attempt.outcome = Outcome::kOtherProgram;
    attempt.reason = cat(change, "; it changed while it ran, so nothing is published");
  }
  RetryCounts& tries = tasks_[i].tries;
  attempt.moved = attempt.step > tries.last_step;
  tries.last_step = std::max(tries.last_step, attempt.step);
  write_exit(attempt);
  run_.emit({"exit",
             static_cast<std::int64_t>(i),
             attempt.number,
             {{"code", event.code},
              {"signal", event.signal},
              {"class", outcome_name(attempt.outcome)},
              {"wall_s", event.wall_s},
              {"cpu_s", event.cpu_s},
              {"peak_rss_bytes", attempt.exit.peak_rss_bytes}}});
  if (attempt.jobs == 0) act_on_exit(event.ticket);
}

void Attempts::act_on_exit(std::uint64_t ticket) {
  ActiveAttempt& attempt = ending_.at(ticket);
  const std::size_t i = attempt.task;
  const Task& task = run_.task(i);
  const bool well = ended_well(attempt.outcome);
  if (attempt.superseded || (!well && !attempt.stop_sent && !run_.leases->holds(task.plan_key))) {
    // The result exists or is being made by another run: this attempt is not needed any more. That run may also have
    // tidied the folder, and this attempt then failed.
    const ActiveAttempt ended = take(ticket);
    run_.release(i);
    remove_leftovers(ended.folder);
    run_.states->at(i).forced = false;
    run_.states->look_again(i);
    return;
  }
  if (attempt.outcome == Outcome::kDiverged && !task.record_divergence) {
    after_failure(take(ticket), Outcome::kDiverged, "training diverged, and on_diverge is 'fail'", false);
    return;
  }
  if (well) {
    publish_outputs(ticket, attempt);
    return;
  }
  if (attempt.outcome == Outcome::kInput && !attempt.verifying_inputs) {
    attempt.verifying_inputs = true;
    ++attempt.jobs;
    checks_.begin_again(i, ticket);
    return;
  }
  const ActiveAttempt ended = take(ticket);
  after_failure(ended, ended.outcome, ended.reason, ended.moved);
}

void Attempts::publish_outputs(std::uint64_t ticket, ActiveAttempt& attempt) {
  const ResultStatus status = attempt.outcome == Outcome::kDone ? ResultStatus::kDone : ResultStatus::kDiverged;
  attempt.outputs_submitted = true;
  attempt.broken.clear();  // a snapshot that was announced too early may be whole by now
  if (run_.task(attempt.task).is_trajectory()) {
    // Announced outputs are published already; a stage may also just end with its files in place.
    for (const std::size_t k : attempt.snapshots) {
      if (const auto refused = attempt.refused.find(k); refused != attempt.refused.end())
        attempt.broken = refused->second;
      else if (attempt.published.count(k) == 0)
        publishing_.submit(ticket, attempt, static_cast<int>(k), status);
    }
  } else {
    publishing_.submit(ticket, attempt, -1, status);
  }
  if (attempt.jobs == 0) finish_publish(ticket);
}

void Attempts::on_published(const PublishAnswer& answer) {
  const std::uint64_t ticket = answer.job.ticket;
  ActiveAttempt* attempt = find(ticket);
  if (!attempt) return;
  --attempt->jobs;
  publishing_.take(*attempt, answer);
  const auto ended = ending_.find(ticket);
  if (ended == ending_.end() || ended->second.jobs > 0) return;
  if (ended->second.outputs_submitted)
    finish_publish(ticket);
  else
    act_on_exit(ticket);
}

void Attempts::on_verified(const VerifyAnswer& answer) {
  const auto found = ending_.find(answer.job.ticket);
  if (found == ending_.end()) return;
  const ActiveAttempt ended = take(answer.job.ticket);
  const std::size_t i = ended.task;
  if (!answer.failed.empty()) {
    remove_leftovers(ended.folder);
    run_.release(i);
    run_.states->at(i).reason = cat(ended.reason, "; its inputs could not be read: ", answer.failed);
    run_.states->set_phase(i, TaskPhase::kInterrupted);
    ++run_.summary.interrupted;
    return;
  }
  const std::set<std::string> damaged(answer.damaged.begin(), answer.damaged.end());
  if (!answer.given_up && repair_inputs(i, damaged, ended.number)) {
    remove_leftovers(ended.folder);
    run_.release(i);  // its inputs come first, and anyone may make those
    return;
  }
  after_failure(ended, Outcome::kInput,
                answer.given_up   ? ended.reason + "; its inputs were not verified"
                : damaged.empty() ? ended.reason + "; the store's copies of its inputs are whole"
                                  : ended.reason + "; an input was damaged again",
                ended.moved);
}

ActiveAttempt Attempts::take(std::uint64_t ticket) {
  const auto found = ending_.find(ticket);
  ActiveAttempt attempt = std::move(found->second);
  ending_.erase(found);
  busy_.erase(run_.task(attempt.task).plan_key);
  busy_.erase(run_.states->at(attempt.task).key.hex());
  return attempt;
}

void Attempts::finish_publish(std::uint64_t ticket) {
  const ActiveAttempt& ending = ending_.at(ticket);
  const std::size_t i = ending.task;
  const Task& task = run_.task(i);
  TaskStates::State& state = run_.states->at(i);
  // Work folders are tidied under the lease; without it, another run may be at work in a later one.
  const bool whole = ending.broken.empty() && ending.changed.empty();
  if (!ending.unstored && whole && !ending.lease_lost) clean_up(ending);
  const bool taken = ending.lease_lost || !run_.leases->holds(task.plan_key);
  const ActiveAttempt attempt = take(ticket);
  if (whole || attempt.unstored || taken) run_.release(i);
  if (!whole && taken) {
    // The run that took the task while this one slept removed its outputs, and makes them.
    run_.states->look_again(i);
    return;
  }
  if (attempt.unstored) {
    state.reason = std::string("its outputs could not be published");
    run_.states->set_phase(i, TaskPhase::kInterrupted);
    return;
  }
  if (!attempt.changed.empty()) {
    after_failure(attempt, Outcome::kInput, attempt.changed, false);
    return;
  }
  if (!attempt.broken.empty()) {
    after_failure(attempt, Outcome::kBroken, cat("it ended well, but ", attempt.broken), false);
    return;
  }
  ++run_.summary.executed;
  estimate_.add(i, attempt.exit.wall_s);
  state.forced = false;
  const auto needed = run_.states->needed_snapshots(i);
  const bool lacks_one = std::any_of(needed.begin(), needed.end(),
                                     [&](std::size_t k) { return state.snapshots->count(static_cast<int>(k)) == 0; });
  // An output that existed when this attempt began was found damaged meanwhile: the task continues to make it.
  if (lacks_one || (!task.is_trajectory() && !state.result))
    run_.states->look_again(i);
  else
    run_.states->set_phase(i, TaskPhase::kDone);
}

/// After a success: logs stay, the rest goes. A trajectory keeps its newest checkpoints, since a later step continues
/// from there.
void Attempts::clean_up(const ActiveAttempt& ended) {
  const Task& task = run_.task(ended.task);
  try {
    if (ended.alone && !task.is_trajectory()) {
      strip_attempt(ended.folder, false);
      return;
    }
    const auto attempts = run_.store.attempts(task.plan_key);
    const auto keep = task.is_trajectory() ? find_resumable(attempts) : std::nullopt;
    for (const fs::path& attempt : attempts) strip_attempt(attempt, keep && *keep == attempt);
  } catch (const support::IoError& error) {
    run_.warn(cat("could not tidy a work folder: ", error.diagnostics().front().message));
  }
}

void Attempts::write_exit(const ActiveAttempt& attempt) const {
  const Json json{{"schema", "pe-exit/1"},
                  {"run", run_.summary.run_id},
                  {"code", attempt.exit.code},
                  {"signal", attempt.exit.signal},
                  {"class", outcome_name(attempt.outcome)},
                  {"wall_s", attempt.exit.wall_s},
                  {"spent_s", attempt.spent_before_s + attempt.exit.wall_s},
                  {"cpu_s", attempt.exit.cpu_s},
                  {"peak_rss_bytes", attempt.exit.peak_rss_bytes},
                  {"mem_bytes", attempt.slot.mem_bytes},
                  {"ended", support::utc_text(support::unix_time())},
                  {"step", attempt.step}};
  try {
    write_new_file(attempt.folder / "exit.json", support::json_text(json, 1) + "\n", false);
  } catch (const support::IoError&) {
    // The journal reports it as well.
  }
}

void Attempts::after_failure(const ActiveAttempt& attempt, Outcome outcome, std::string reason, bool moved) {
  const std::size_t i = attempt.task;
  AttemptHistory& tried = tasks_[i];
  const Task& task = run_.task(i);
  reason += lack_of_room(run_.store.root(), outcome);  // before anything makes room
  if (outcome == Outcome::kIo) run_.store_changes([&] { prove_writable(attempt.folder); });
  remove_leftovers(attempt.folder);
  const bool stopping = run_.stop_level > 0 || attempt.stop_sent;
  // An attempt that was asked to stop early says nothing about a loop.
  Decision decision = decide(outcome, *task.retry, tried.tries, moved || stopping);
  // A job has what it asked for; another try in it would end the same. `submit` asks for more.
  const bool had_all = outcome == Outcome::kOutOfMemory && attempt.slot.mem_bytes >= run_.options.capacity.mem_bytes;
  if (run_.options.join && had_all) decision.kind = Decision::Kind::kFail;
  const auto id = static_cast<std::int64_t>(i);
  // Between an attempt and the next the task stays this run's: another would count its attempts from the first again.
  const bool goes_on = decision.kind == Decision::Kind::kRetry || decision.kind == Decision::Kind::kRequeue;
  if (stopping || !goes_on) run_.release(i);
  if (stopping && decision.kind != Decision::Kind::kFail) {
    run_.states->at(i).reason = reason;
    run_.states->set_phase(i, TaskPhase::kInterrupted);
    ++run_.summary.interrupted;
    return;
  }
  if (decision.kind == Decision::Kind::kRequeue) {
    tried.tries.requeued = moved ? 0 : tried.tries.requeued + 1;
    if (tried.tries.requeued > 2) {
      run_.release(i);
      fail(i, Outcome::kNoProgress, cat(reason, " three times without a step"), attempt.folder);
      return;
    }
    run_.emit({"requeue", id, attempt.number, {{"class", outcome_name(outcome)}, {"step", attempt.step}}});
    again(i, 0);
    return;
  }
  if (decision.kind == Decision::Kind::kRetry) {
    ++(outcome == Outcome::kNode ? tried.tries.unstarted : tried.tries.failed);
    tried.mem_factor *= decision.mem_factor;
    run_.emit({"retry",
               id,
               attempt.number,
               {{"class", outcome_name(outcome)},
                {"reason", reason},
                {"delay_s", decision.delay_s},
                {"log", (attempt.folder / "stage.log").string()}}});
    again(i, decision.delay_s);
    return;
  }
  std::string why = outcome == Outcome::kCheckpointed ? reason + " twice without a step" : reason;
  const std::int64_t most = run_.options.capacity.mem_bytes;
  if (outcome == Outcome::kOutOfMemory && attempt.slot.mem_bytes >= most)
    why += cat("; it had all the memory there is, ", support::short_bytes(static_cast<double>(most)));
  fail(i, outcome == Outcome::kCheckpointed ? Outcome::kNoProgress : outcome, why, attempt.folder);
}

void Attempts::fail(std::size_t i, Outcome outcome, const std::string& reason, const fs::path& attempt) {
  TaskFailure failure;
  failure.task = i;
  failure.outcome = outcome;
  failure.reason = reason;
  if (!attempt.empty()) {
    failure.log = (attempt / "stage.log").string();
    failure.tail = last_lines(attempt / "stage.log", kTailLines);
  }
  failure.rerun = run_.options.command;
  failure.rerun.push_back(run_.task(i).id);
  run_.states->fail(i, reason);
  ++run_.summary.failed;
  run_.emit({"fail",
             static_cast<std::int64_t>(i),
             tasks_[i].number,
             {{"class", outcome_name(outcome)},
              {"reason", reason},
              {"tail", failure.tail},
              {"log", failure.log},
              {"rerun", shell_command(failure.rerun)}}});
  run_.summary.failures.push_back(std::move(failure));
  if (!run_.options.keep_going) run_.no_new_starts = true;
}

void Attempts::again(std::size_t i, double delay_s) {
  wake_at(i, run_.runner.now() + delay_s);
  run_.states->make_ready_again(i);
}

void Attempts::on_damaged_inputs(std::size_t i, const std::set<std::string>& damaged) {
  if (repair_inputs(i, damaged, 0)) return;
  for (const Edge& edge : run_.task(i).inputs) {
    const auto result = run_.states->result_of(edge);
    const OutputRecord* output = result ? result->output(edge.output) : nullptr;
    if (!output || !names_any(*output, damaged)) continue;
    fail(i, Outcome::kInput,
         cat("its input ", quote(edge.role), ", made by ", producer_id(run_.graph, edge), ", is damaged in the store"),
         {});
    return;
  }
  run_.states->make_ready_again(i);
}

bool Attempts::repair_inputs(std::size_t i, const std::set<std::string>& damaged, int number) {
  if (tasks_[i].input_repairs >= 1) return false;
  const Task& task = run_.task(i);
  std::set<std::size_t> producers;
  bool on_its_way = false;
  const bool good = run_.store_changes([&] {
    for (const Edge& edge : task.inputs) {
      // Another reader found it first: it is on its way, or there again.
      if (repaired_.count(edge.producer)) on_its_way = true;
      const auto result = run_.states->result_of(edge);
      const OutputRecord* output = result ? result->output(edge.output) : nullptr;
      if (!output || !names_any(*output, damaged)) continue;
      for (const std::string& digest : damaged) {
        if (names_any(*output, {digest})) run_.store.discard_object(digest);
      }
      producers.insert(edge.producer);
      run_.warn(edge.producer, 0,
                cat("its output ", quote(edge.output), " was damaged in the store and is made again"));
      run_.states->drop_result(edge.producer, run_.states->snapshot_number(edge));
    }
  });
  if (!good || (producers.empty() && !on_its_way)) return false;
  ++tasks_[i].input_repairs;
  run_.emit({"retry",
             static_cast<std::int64_t>(i),
             number,
             {{"class", "input"}, {"reason", "a damaged input"}, {"delay_s", 0}}});
  repaired_.insert(producers.begin(), producers.end());
  for (const std::size_t producer : producers) {
    run_.states->at(producer).made = false;
    if (run_.states->phase(producer) != TaskPhase::kRunning) run_.states->look_again(producer);
  }
  run_.states->look_again(i);
  return true;
}

}  // namespace pe::pipeline
