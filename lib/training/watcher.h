/// @file
/// Logs of a running training: a line on the terminal, `metrics.jsonl`, TensorBoard event files and `progress.json`,
/// all in the work folder. None of it is an artifact; times and speeds belong here and nowhere else.
///
/// metrics.jsonl, a record a line: {"run_id", "attempt", "phase", "step", "tokens", "flops", "wall_s", …} with the
/// figures of the phase: train, validation, attention, checkpoint. See doc/training.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>

#include "artifact/workspace.h"
#include "training/curves.h"
#include "training/tensorboard.h"
#include "training/train_config.h"

namespace pe::training {

/// Facts that the watcher gets at the start and cannot compute.
struct MonitorState {
  std::int64_t first_step = 0;  ///< where the run began
  std::int64_t step = 0;        ///< where this attempt begins
  std::int64_t last_step = 0;
  std::int64_t tokens_per_step = 0;
  std::int64_t tokens_before = 0;  ///< by earlier trainings, where this one counts steps from 0
  double flops_per_token = 0;
  std::optional<double> peak_flops;      ///< of all devices, dense, a second; empty: unknown
  std::function<double()> memory_bytes;  ///< of the device, or of the process; asked once a second
};

class Watcher {
 public:
  /// Takes over the log of an earlier attempt up to `about.step`, and begins a new attempt.
  Watcher(const artifact::Workspace& workspace, const WatchFiles& files, MonitorState about,
          support::Progress& progress);

  /// After each step. @param logged whether it is a row of metrics
  void step(const TrainRow& row, bool logged);
  void waited_for_data(double seconds) { data_s_ += seconds; }
  void validation(const ValidationRow& row);
  void attention(const LogitSample& sample);
  /// A checkpoint to resume from was written. @param stall_s how long training waited for it
  void checkpoint(std::int64_t step, double stall_s, double write_s, std::uint64_t bytes);
  /// "done", "stopped" or "diverged".
  void end(const std::string& state);

 private:
  using Clock = std::chrono::steady_clock;
  /// Seen by the end of a step, the training before this one included.
  std::int64_t tokens(std::int64_t step) const { return about_.tokens_before + step * about_.tokens_per_step; }
  Json head(const char* phase, std::int64_t step) const;
  double speed();
  void write_progress(const std::string& state);
  void chart(std::int64_t step, std::initializer_list<Scalar> scalars);

  std::filesystem::path work_;
  WatchFiles files_;
  MonitorState about_;
  support::Progress& progress_;
  std::string run_id_, stage_;
  MetricsLog log_;
  std::optional<EventFile> events_;
  Clock::time_point started_ = Clock::now(), written_;
  std::deque<std::pair<Clock::time_point, std::int64_t>> marks_;  ///< of the last seconds, for the speed
  double data_s_ = 0;
  Clock::time_point last_row_ = Clock::now();
  Json progress_record_;
};

/// "mfu = tokens/s · 7.92 MFLOP / 989 TFLOP/s": how it is worked out, for the first lines of a log.
std::string mfu_formula(double flops_per_token, std::optional<double> peak, const std::string& device);

}  // namespace pe::training
