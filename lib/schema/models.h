/// @file
/// Rows of tables of an evaluation (row.h): costs, parameters and texts of a model.
#pragma once

#include "schema/row.h"

namespace pe::schema {

struct Cost {
  static constexpr const char* kName = "cost";
  static constexpr const char* kMeaning =
      "Milliseconds and memory, measured by pe-measure; they differ from run to run.";
  std::string device;
  std::string dtype;
  std::string path;
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::string component;
  std::int64_t reps = 0;
  double median_ms = kMissing;
  double p25_ms = kMissing;
  double p75_ms = kMissing;
  std::optional<std::int64_t> peak_bytes;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("device", row.device, "", "name, threads or dtype");
    column("dtype", row.dtype, "", "fp32 or bf16");
    column("path", row.path, "", "unfused: the definition; best: the cheapest exact route");
    column("batch", row.batch, "", "texts at a time");
    column("T", row.length, "tokens", "length of the texts", kNeeded);
    column("component", row.component, "",
           "encode, attention, forward, forward_none, training_step or training_step_none");
    column("reps", row.reps, "", "repetitions that count");
    column("median_ms", row.median_ms, "ms", "encode is a difference, so it may be below zero");
    column("p25_ms", row.p25_ms, "ms", "first quartile");
    column("p75_ms", row.p75_ms, "ms", "third quartile");
    column("peak_bytes", row.peak_bytes, "bytes", "that tensors take above what was there");
    column("status", row.status, "", "ok or na_positions");
  }
};

struct Sample {
  static constexpr const char* kName = "samples";
  static constexpr const char* kMeaning = "Texts that the model wrote (pe-sample).";
  std::string prompt_id;
  std::int64_t text_id = 0;
  double temperature = kMissing;
  std::int64_t top_k = 0;
  std::string prompt;
  std::string text;
  std::int64_t tokens = 0;
  std::int64_t ended = 0;
  double nll = kMissing;
  double repeated = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("prompt_id", row.prompt_id, "", "given <n>, or <split> document <n>");
    column("text_id", row.text_id, "", "number of the text of its prompt", kNeeded);
    column("temperature", row.temperature, "", "sample.temperature");
    column("top_k", row.top_k, "", "sample.top_k");
    column("prompt", row.prompt, "", "the text that the sample continues");
    column("text", row.text, "", "its continuation");
    column("tokens", row.tokens, "tokens", "of that");
    column("ended", row.ended, "", "1: it ended the document; 0: as many tokens as were asked for");
    column("nll", row.nll, "nats", "a drawn token costs the model at temperature 1, on average");
    column("repeated", row.repeated, "", "share of four-token sequences that occurred in the text before");
  }
};

struct Parameters {
  static constexpr const char* kName = "parameters";
  static constexpr const char* kMeaning = "Parameters and tables of the encoding.";
  std::int64_t parameters = 0;
  double share = kMissing;
  std::int64_t total = 0;
  std::string placement;
  std::int64_t length = 0;
  std::optional<std::int64_t> table_bytes;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("parameters", row.parameters, "", "learned numbers of the encoding");
    column("share", row.share, "", "of all of the model");
    column("total", row.total, "", "of the model");
    column("placement", row.placement, "", "none, shared, per layer, or both");
    column("L", row.length, "tokens", "texts for which it keeps tables", kNeeded);
    column("table_bytes", row.table_bytes, "bytes", "kept after a pass of L tokens: tables and caches");
  }
};

}  // namespace pe::schema
