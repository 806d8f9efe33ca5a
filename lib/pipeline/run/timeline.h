/// @file
/// How a run went, in time: a view of its history (run_status.h). It is read from the run's folder alone. It therefore
/// also works for a run that has ended, has died, or is still running.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/run/run_status.h"
#include "pipeline/store/store.h"
#include "support/json.h"

namespace pe::pipeline {

/// An attempt with an end. Where that is not known, it is the end of the run, and the outcome "running" or "lost".
struct TimelineSpan : TaskAttempt {
  std::size_t lane = 0;  ///< its slot: no two spans of a lane overlap
};

struct TimelineTask {
  std::string id, stage;
  std::string state;        ///< as in TaskStatus::phase
  double ready_s = 0;       ///< when the last thing that it needed was there
  std::uint64_t bytes = 0;  ///< published
  std::vector<TimelineSpan> spans;
  std::vector<std::size_t> needs;  ///< indices into Timeline::tasks
  std::string reason;              ///< of a failure or a block
  /// From being ready to the first start; 0 when it never started.
  double waited_s() const { return spans.empty() ? 0 : std::max(0.0, spans.front().start_s - ready_s); }
  double ran_s() const;
  std::int64_t peak_rss_bytes() const;
};

struct Timeline {
  std::string run_id, pipeline, title, root, host, capacity, state;
  double started = 0;               ///< unix
  double length_s = 0;              ///< to the end of the run, or to the last that is known of it
  std::vector<TimelineTask> tasks;  ///< in plan order
  std::vector<std::string> stages;  ///< in order of appearance
  std::size_t lanes = 0;
  /// The chain that the run's end waited for, first task first: each became ready when the one before it was published.
  std::vector<std::size_t> critical;
  std::size_t damaged_lines = 0;

  std::size_t count(const std::string& state) const;
  double task_seconds() const;  ///< of all attempts
  /// The sum of the peak memory of tasks that ran at one moment, at most: an upper bound of the memory in use.
  std::int64_t peak_together_bytes() const;
};

/// @throws IoError, ArtifactError when there is no such run.
Timeline read_timeline(const Store& store, const std::string& run_id);

Json to_json(const Timeline& timeline);

}  // namespace pe::pipeline
