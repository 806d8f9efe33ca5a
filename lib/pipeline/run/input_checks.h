/// @file
/// Reads the inputs of tasks through before they start. Each object is read once in a run, by the publisher's threads,
/// and objects that the run published count as read. The most urgent tasks go first, a few ahead of their slots.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pipeline/run/publish_threads.h"
#include "pipeline/run/run_context.h"

namespace pe::pipeline {

/// Whether one of an output's objects is among `digests`.
bool names_any(const OutputRecord& output, const std::set<std::string>& digests);

class InputChecks {
 public:
  InputChecks(RunContext& run, PublishThreads& publisher)
      : run_(run), publisher_(publisher), passed_(run.graph.tasks.size()) {}

  struct Reading {
    double started_s = 0;
    std::uint64_t bytes = 0;  ///< of all that it reads
    VerifyJob job;            ///< whose counter the threads raise
  };

  /// Whether a ready task may start as far as its inputs are concerned.
  bool passed(std::size_t task);
  /// Whether another task may be read for ahead of its slot.
  bool has_room() const { return reading_.size() < kAhead; }
  /// Takes a ready task that has not passed to the phase "verifying".
  void begin(std::size_t task);
  /// Reads all inputs of a task again, for an attempt that blamed them.
  void begin_again(std::size_t task, std::uint64_t ticket);
  /// The task's inputs were made again.
  void forget(std::size_t task) { passed_[task] = false; }
  /// The damaged inputs of a task that `begin` was called for. Nothing when `begin` was called for it again since: the
  /// answer is then about objects that may have been made again. Damage to an earlier snapshot, which the task does not
  /// need, is only remembered.
  std::optional<std::set<std::string>> take(const VerifyAnswer& answer);
  const std::map<std::size_t, Reading>& reading() const { return reading_; }

  /// The newest whole snapshot of a trajectory before `limit`, known to be undamaged unless nothing is checked.
  struct Earlier {
    std::int64_t step = 0;
    Result result;
  };
  std::optional<Earlier> earlier_snapshot(std::size_t task, const std::vector<std::size_t>& snapshots) const;
  /// The snapshots that an attempt of the task would be asked for.
  std::vector<std::size_t> wanted_snapshots(std::size_t task) const;

 private:
  static constexpr std::size_t kAhead = 16;
  void each_input(std::size_t task, const std::function<void(const OutputRecord&)>& take) const;
  std::vector<OutputRecord> unread(std::size_t task) const;

  RunContext& run_;
  PublishThreads& publisher_;
  std::vector<bool> passed_;
  std::map<std::size_t, Reading> reading_;
  std::uint64_t last_number_ = 0;
  std::set<std::string> unfit_;  // damaged objects of earlier snapshots
};

}  // namespace pe::pipeline
