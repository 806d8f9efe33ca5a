/// @file
/// Metrics of a training (kind `metrics`). Tables are `train`, a row per logged step, `validation`, a row per
/// validation, `steps`, a row for every step, and `attention`, a row per 100 steps. `facts["stability"]` says how
/// steady it was (training/stability.h). Written whole at the end; `metrics.jsonl` in the work folder of a running
/// training is a log and no artifact. Times and speeds are measured and belong to a volatile output, never in here.
#pragma once

#include "artifact/table.h"

namespace pe::artifact {

/// step, tokens, loss (nats/token), bpb (bits/byte), lr, grad_norm, clipped (0 or 1)
std::vector<ColumnSpec> train_columns();
/// step, tokens, loss (nats/token), bpb (bits/byte), tokens_scored, bytes_scored
std::vector<ColumnSpec> validation_columns();
/// loss (nats/token), grad_norm: values of each step, from the run's first
std::vector<ColumnSpec> step_columns();
/// step, largest_logit: of one sequence, over layers and heads
std::vector<ColumnSpec> attention_columns();

inline void write_metrics(const std::filesystem::path& path, const Recipe& recipe, const Tables& tables) {
  write_tables(path, Kind::kMetrics, recipe, tables);
}
inline Tables read_metrics(const std::filesystem::path& path) { return read_tables(path, Kind::kMetrics); }
inline Tables read_metrics(const h5::File& file) { return read_tables(file, Kind::kMetrics); }

}  // namespace pe::artifact
