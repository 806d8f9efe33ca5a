/// @file
/// From a stage's outputs to results in the store: the record and report of their making, and the consequences of a
/// publication for the task.
#pragma once

#include <cstdint>

#include "pipeline/run/active_attempt.h"
#include "pipeline/run/friendly_names.h"
#include "pipeline/run/publish_threads.h"
#include "pipeline/run/run_context.h"

namespace pe::pipeline {

class PublishState {
 public:
  PublishState(RunContext& run, PublishThreads& publisher, FriendlyNames* names)
      : run_(run), publisher_(publisher), names_(names) {}

  /// Hands the outputs of an attempt, or of one snapshot (an index into Task::snapshots, else -1), to the publisher.
  void submit(std::uint64_t ticket, ActiveAttempt& attempt, int snapshot, ResultStatus status);
  /// A job of the attempt is done: its result is the task's, or the attempt says what is wrong.
  void take(ActiveAttempt& attempt, const PublishAnswer& answer);
  /// Without a run: what reads a diverged artifact has diverged too. False when the store failed.
  bool inherit_divergence(std::size_t task, TaskInputs inputs);

 private:
  Standing standing_of(std::size_t task) const;
  Record record_for(const ActiveAttempt& attempt, std::int64_t step, ResultStatus status) const;
  /// The recipe in the manifest of a report.
  artifact::Recipe recipe_for(const ActiveAttempt& attempt) const;
  void tell_conflict(const ActiveAttempt& attempt, const PublishResult& published);
  /// Reports a record that is now valid. Returns the result that is valid.
  PackedResult announce(const ActiveAttempt& attempt, const PublishResult& published, const Record& record,
                        Json detail);

  RunContext& run_;
  PublishThreads& publisher_;
  FriendlyNames* names_;  // null: nothing is named
};

}  // namespace pe::pipeline
