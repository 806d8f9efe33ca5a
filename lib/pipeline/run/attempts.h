/// @file
/// The attempts of a run: starts stages, hears what they say, and decides what the end of one means: its outputs are
/// published, it is tried again, or the task fails.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pipeline/plan/program_watch.h"
#include "pipeline/run/active_attempt.h"
#include "pipeline/run/input_checks.h"
#include "pipeline/run/publish_state.h"
#include "pipeline/run/run_context.h"
#include "pipeline/run/run_estimate.h"

namespace pe::pipeline {

class TaskFileWriter;

class Attempts {
 public:
  /// Takes what the store has under a task's key; true when that is all that is needed.
  using ReuseFunction = std::function<bool(std::size_t task)>;
  using SlotFunction = std::function<void(const Slot&)>;

  Attempts(RunContext& run, PublishState& publishing, InputChecks& checks, RunEstimate& estimate,
           ReuseFunction reuse_if_there, SlotFunction give_back);

  // ---- before the start
  /// When the task may start: it waits before a retry, or polls another run's lease.
  double not_before_s(std::size_t task) const { return tasks_[task].not_before_s; }
  double mem_factor(std::size_t task) const { return tasks_[task].mem_factor; }
  /// Whether work with its plan key or its key is running already.
  bool is_busy(std::size_t task) const;
  /// False when the task did not start; it is then failed, or ready again later.
  bool start(std::size_t task, const Slot& slot);

  // ---- while they run
  const std::map<std::uint64_t, ActiveAttempt>& running() const { return running_; }
  const std::map<std::uint64_t, ActiveAttempt>& ending() const { return ending_; }  ///< ended, and not settled yet
  void on_message(const RunnerEvent& event);
  void on_exit(const RunnerEvent& event);
  void on_published(const PublishAnswer& answer);
  /// The inputs that an attempt blamed have been read.
  void on_verified(const VerifyAnswer& answer);
  void signal_all(int signal);
  /// Stops what runs longer than it may, and cuts logs that grow too large.
  void enforce_limits();
  /// Heartbeats. Stops attempts whose tasks another run took over and finished.
  void tend_leases();

  /// The input of a task that has not started is damaged: its producer makes it again, else the task fails.
  void on_damaged_inputs(std::size_t task, const std::set<std::string>& damaged);

 private:
  /// Facts about a task that this run keeps from one attempt to the next.
  struct AttemptHistory {
    RetryCounts tries;
    double mem_factor = 1;
    double not_before_s = 0;
    double orphan_since_s = -1;
    int lease_polls = 0;  // how often it was found to be someone else's
    int input_repairs = 0;
    int number = 0;        // of the latest attempt
    int first_number = 0;  // of this run's first attempt
  };

  // ---- attempts.cpp
  bool lease(std::size_t i);
  bool may_wait_for_descriptors();
  bool postpone(std::size_t i, const ActiveAttempt& attempt);
  void fail_for_closed_folder(std::size_t i, const support::IoError& error);
  bool orphan_is_gone(std::size_t i, const std::vector<std::filesystem::path>& before);
  void read_earlier_tries(std::size_t i, const std::vector<std::filesystem::path>& before);
  ActiveAttempt make_attempt(std::size_t i, const Slot& slot);
  bool launch(ActiveAttempt attempt, const Launch& launch);
  /// How the program of an attempt with the build in its key changed since its start. Empty: not at all.
  std::string program_change(const ActiveAttempt& attempt);
  void blame_inputs(ActiveAttempt attempt, const std::string& reason);
  void wake_at(std::size_t i, double when_s) { tasks_[i].not_before_s = when_s; }
  /// Whether the journal has room for an event of a stage; counts the events that are left out.
  bool may_tell(ActiveAttempt& attempt, const Json& detail);
  void tell_left_out(ActiveAttempt& attempt);

  // ---- task_document.cpp
  /// Writes `task.json`; notes in the attempt what it continues from.
  void write_task_file(ActiveAttempt& attempt, const std::vector<std::filesystem::path>& before) const;
  void name_inputs(const ActiveAttempt& attempt, TaskFileWriter& file) const;
  void name_earlier(ActiveAttempt& attempt, TaskFileWriter& file) const;
  void name_resume(ActiveAttempt& attempt, const std::vector<std::filesystem::path>& before,
                   TaskFileWriter& file) const;

  // ---- attempt_ends.cpp
  ActiveAttempt* find(std::uint64_t ticket);
  /// Once no snapshot of an ended attempt is under way: publishes the rest, verifies its inputs, or gives up.
  void act_on_exit(std::uint64_t ticket);
  void publish_outputs(std::uint64_t ticket, ActiveAttempt& attempt);
  /// Once all its outputs are published, or one of them cannot be.
  void finish_publish(std::uint64_t ticket);
  /// Takes an attempt that has ended off the books.
  ActiveAttempt take(std::uint64_t ticket);
  void clean_up(const ActiveAttempt& ended);
  void write_exit(const ActiveAttempt& attempt) const;
  void after_failure(const ActiveAttempt& attempt, Outcome outcome, std::string reason, bool moved);
  void fail(std::size_t i, Outcome outcome, const std::string& reason, const std::filesystem::path& attempt);
  void again(std::size_t i, double delay_s);
  bool repair_inputs(std::size_t i, const std::set<std::string>& damaged, int number);
  bool results_there(std::size_t i) const;

  RunContext& run_;
  PublishState& publishing_;
  InputChecks& checks_;
  RunEstimate& estimate_;
  ReuseFunction reuse_if_there_;
  SlotFunction give_back_;
  std::vector<AttemptHistory> tasks_;
  std::map<std::uint64_t, ActiveAttempt> running_;
  std::map<std::uint64_t, ActiveAttempt> ending_;
  ProgramWatch programs_;
  std::multiset<std::string> busy_;  // plan and task keys at work
  std::set<std::size_t> repaired_;   // producers of damaged objects that were sent to work again
  std::uint64_t last_ticket_ = 0;
  bool descriptors_told_ = false;
  int waits_alone_ = 0;  // for descriptors, in a row, while no stage ran
};

}  // namespace pe::pipeline
