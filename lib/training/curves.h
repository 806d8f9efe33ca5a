/// @file
/// Curves of a running training: rows for the metrics artifact, and `metrics.jsonl` in the work folder. The log
/// survives resuming: records after the checkpoint move to another file and are never counted twice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "artifact/checkpoint.h"
#include "artifact/metrics.h"
#include "artifact/workspace.h"
#include "training/stability.h"

namespace pe::training {

struct TrainRow {
  std::int64_t step = 0;    ///< steps done
  std::int64_t tokens = 0;  ///< tokens seen
  double loss = 0;          ///< nats per token, of this step's batch, before its update
  double bpb = 0;           ///< bits per byte of text
  double lr = 0;
  double grad_norm = 0;
  bool clipped = false;
};

struct ValidationRow {
  std::int64_t step = 0;
  std::int64_t tokens = 0;
  double loss = 0;
  double bpb = 0;
  std::int64_t tokens_scored = 0;
  std::int64_t bytes_scored = 0;
};

struct Curves {
  std::vector<TrainRow> train;
  std::vector<ValidationRow> validation;
  std::vector<StepFact> steps;  ///< every step of the run
  std::vector<LogitSample> logits;

  /// The validation with the lowest loss, the first of equals; none without a finite one.
  std::optional<ValidationRow> best() const;

  artifact::Tables tables(const Json& facts) const;
  /// Reads the tables that `tables` wrote. @throws ArtifactError when a table or column is missing
  static Curves from_tables(const artifact::Tables& tables);
  /// As tensors "curves/train", "curves/validation", "curves/steps" and "curves/logits" of a checkpoint to resume from.
  void write(artifact::CheckpointWriter& writer) const;
  static Curves read(const artifact::CheckpointReader& checkpoint);
};

/// JSON has no NaN: such numbers are the texts "NaN", "Infinity", "-Infinity".
Json json_number(double value);

/// Appends records to `<work>/metrics.jsonl`.
class MetricsLog {
 public:
  /// @param resume the work folder of an earlier attempt, or empty; its records up to `step` are taken over.
  MetricsLog(const std::filesystem::path& work, const std::filesystem::path& resume, std::int64_t step);
  void add(Json record);
  std::int64_t attempt() const { return attempt_; }
  double wall_before() const { return wall_s_; }  ///< seconds that the records taken over had taken

 private:
  std::filesystem::path file_;
  std::int64_t attempt_ = 1;
  double wall_s_ = 0;
};

}  // namespace pe::training
