/// @file
/// An attempt of a task from its start to the moment when its outputs are in the store, or it has failed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pipeline/plan/slots.h"
#include "pipeline/run/failure.h"
#include "pipeline/run/runner.h"
#include "pipeline/run/task_states.h"

namespace pe::pipeline {

struct ActiveAttempt {
  std::size_t task = 0;
  Slot slot;
  std::filesystem::path folder;
  int number = 0;
  TaskInputs inputs;  // in their state at the start
  double started_s = 0;
  double started_unix = 0;
  double spent_before_s = 0;       // on the attempts that it continues from
  std::int64_t started_step = -1;  // the last checkpoint before this attempt
  std::int64_t step = -1;
  std::int64_t peak_rss_bytes = 0;  // as the stage itself says; 0: it does not
  bool reports_checkpoints = false;
  bool stop_sent = false;
  bool resumed = false;
  bool alone = false;  // no attempt of its task was there before it
  Json progress = Json::object();
  // Events of the second that began then: those in the journal, their bytes, and those left out.
  double told_since_s = -1;
  std::size_t told = 0, told_bytes = 0, left_out = 0;
  Json machine = Json::object();       // build, library and device, as the stage itself says
  std::vector<std::size_t> snapshots;  // indices into Task::snapshots that were asked for
  std::set<std::size_t> submitted;     // to the publisher; published ones are among them
  std::set<std::size_t> published;
  std::map<std::size_t, std::string> refused;  // snapshots whose contents differ from a known result, with the reason
  double kill_at_s = -1;  // it ran out of time and was asked to stop; then it is killed
  bool timed_out = false;
  bool lease_lost = false;  // another process broke our lease while this one was stopped
  bool superseded = false;  // and published meanwhile: the stage was stopped

  // After the stage has ended.
  RunnerEvent exit;
  Outcome outcome = Outcome::kDone;
  std::string reason;
  bool moved = false;              // A checkpoint later than the start's was reported.
  int jobs = 0;                    // Running jobs of the publisher.
  bool verifying_inputs = false;   // It blamed its inputs, which are being read.
  bool outputs_submitted = false;  // Its last outputs are under way.
  std::string broken;              // An output that is no whole artifact.
  std::string changed;             // An external input that differs from the key.
  bool unstored = false;           // the store could not be written
};

}  // namespace pe::pipeline
