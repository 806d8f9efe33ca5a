/// @file
/// Artifacts with plausible numbers for tests of reports: written through the same functions as real ones, small, and
/// the same every time. No number in them says anything about any encoding.
#pragma once

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "artifact/eval_table.h"
#include "artifact/metrics.h"
#include "artifact/workspace.h"
#include "schema/language_modelling.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::report::sample {

struct Options {
  std::vector<std::string> encodings{"none", "sinusoidal", "rope", "alibi"};
  std::vector<std::string> stages{"decay"};  ///< "decay", "drop", "nodrop"
  std::vector<int> seeds{42, 43};
  std::vector<std::int64_t> lengths{128, 256, 512, 1024};
  int documents = 32;
  bool retrieval = true;
  bool copy = true;
  bool curves = true;
  bool configs = false;  ///< training logs have the settings of their training
};

inline double noise(std::initializer_list<std::uint64_t> key, double sd) {
  double value = 0;
  support::philox_normal(support::make_key(key), &value, 1);
  return sd * value;
}

/// Nats that a model loses at `ratio` times its training length, by the encoding in its name.
inline double penalty(const std::string& encoding, const std::string& stage, double ratio) {
  const double octaves = std::log2(ratio);
  if (stage == "drop") return 0.03 + 0.05 * octaves;
  if (encoding == "rope") return octaves <= 0 ? 0 : 0.9 * octaves * octaves;
  if (encoding == "sinusoidal") return octaves <= 0 ? 0.02 : 0.02 + 0.75 * octaves;
  if (encoding == "none") return 0.08 + (octaves > 0 ? 0.25 * octaves : 0);
  if (encoding == "alibi") return 0.01 - 0.02 * octaves;
  if (encoding == "learned") return 0.03;
  return 0.02 + 0.1 * octaves + noise({support::fnv1a64(encoding)}, 0.05);
}

inline artifact::Input write_scores(const std::filesystem::path& path, const Options& options,
                                    const std::string& encoding, const std::string& stage, int seed) {
  using artifact::Cell;
  artifact::Tables tables;
  const std::uint64_t name = support::fnv1a64(encoding + stage);
  const std::string run_id = support::sha256_hex(support::cat(encoding, stage, seed)).substr(0, 12);
  const auto table = [&](const char* of, const std::vector<artifact::ColumnSpec>& columns) {
    std::vector<artifact::ColumnSpec> all;
    for (const schema::Column& column : schema::columns_of<schema::Identity>())
      all.push_back({column.name, column.type, ""});
    all.insert(all.end(), columns.begin(), columns.end());
    return artifact::Table(of, std::move(all));
  };
  const auto row = [&](std::vector<Cell> cells) {
    cells.insert(cells.begin(), {Cell(run_id), Cell(encoding), Cell(seed), Cell(300)});
    return cells;
  };
  using enum artifact::ColumnType;
  artifact::Table docs = schema::table_of<schema::LmDocument>({}, {}),
                  summary = schema::table_of<schema::LmSummary>({}, {});
  for (const std::string protocol : {"prefix", "sliding"}) {
    for (const std::int64_t length : options.lengths) {
      const double ratio = static_cast<double>(length) / 128;
      const std::int64_t stride = protocol == "sliding" ? length / 2 : length;
      if (encoding == "learned" && ratio > 1) {
        summary.add_row(row({"test", protocol, length, stride, "doc_start", 0, 0, std::nan(""), std::nan(""),
                             std::nan(""), std::nan(""), std::nan(""), std::nan(""), std::nan(""), "na_positions"}));
        continue;
      }
      double nll = 0, tokens = 0;
      for (int d = 0; d < options.documents; ++d) {
        const double scored = static_cast<double>(protocol == "prefix" ? length - 1 : 1023);
        const double mean = 3.1 - (protocol == "prefix" ? 0.04 * std::log2(ratio) : 0.06 * std::log2(ratio)) +
                            penalty(encoding, stage, ratio) + noise({1, static_cast<std::uint64_t>(d)}, 0.4) +
                            noise({2, static_cast<std::uint64_t>(seed), name}, 0.008) +
                            noise({3, static_cast<std::uint64_t>(d), static_cast<std::uint64_t>(seed), name,
                                   static_cast<std::uint64_t>(length)},
                                  0.02);
        docs.add_row(row({"test", protocol, length, stride, d, static_cast<std::int64_t>(scored),
                          static_cast<std::int64_t>(3.4 * scored), mean * scored}));
        nll += mean * scored;
        tokens += scored;
      }
      const double mean = nll / tokens;
      const bool overflow = std::exp(mean) > 1e4;
      summary.add_row(row({"test", protocol, length, stride, "doc_start", options.documents,
                           static_cast<std::int64_t>(tokens), 0.75 * static_cast<double>(length), mean, std::exp(mean),
                           mean / std::log(2.0) / 3.4, 0.07, mean - 0.14, mean + 0.14, overflow ? "overflow" : "ok"}));
    }
  }
  tables.tables.push_back(std::move(docs));
  tables.tables.push_back(std::move(summary));
  if (options.retrieval) {
    artifact::Table trials = table("retrieval_trial", {{"task", kText, ""},
                                                       {"variant", kText, ""},
                                                       {"L", kInteger, ""},
                                                       {"depth", kReal, ""},
                                                       {"trial", kInteger, ""},
                                                       {"em", kReal, ""},
                                                       {"digit_correct", kReal, ""},
                                                       {"digit_total", kInteger, ""},
                                                       {"nll_key", kReal, ""},
                                                       {"nll_key_control", kReal, ""}});
    for (const std::int64_t length : options.lengths) {
      for (const double depth : {0.0, 0.5, 1.0}) {
        for (int trial = 0; trial < 10; ++trial) {
          const double gain = std::max(0.0, 0.9 - 0.5 * penalty(encoding, stage, static_cast<double>(length) / 128)) *
                              (0.4 + 0.6 * depth);
          const double control =
              12 + noise({4, static_cast<std::uint64_t>(trial), static_cast<std::uint64_t>(length)}, 0.5);
          trials.add_row(row({"passkey", "own", length, depth, trial, trial == 0 && depth == 1.0 ? 1.0 : 0.0, 1.0, 5,
                              control - 5 * gain +
                                  noise({5, static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(trial)}, 0.3),
                              control}));
        }
      }
    }
    tables.tables.push_back(std::move(trials));
  }
  if (options.copy) {
    artifact::Table algo = table("algo_summary", {{"task", kText, ""},
                                                  {"split", kText, ""},
                                                  {"length", kInteger, ""},
                                                  {"n", kInteger, ""},
                                                  {"em", kReal, ""},
                                                  {"token_acc", kReal, ""},
                                                  {"nll_target", kReal, ""},
                                                  {"chance_em", kReal, ""},
                                                  {"chance_tok", kReal, ""},
                                                  {"status", kText, ""}});
    for (const std::int64_t length : options.lengths) {
      const double loss = penalty(encoding, stage, static_cast<double>(length) / 128);
      const double accuracy =
          std::clamp(0.62 - 0.3 * loss + noise({6, static_cast<std::uint64_t>(seed), name}, 0.02), 0.0, 1.0);
      algo.add_row(
          row({"copy", "test", length, 50, 0.0, accuracy, 2.2 + loss, 0.0, 2.0 / static_cast<double>(length), "ok"}));
    }
    tables.tables.push_back(std::move(algo));
  }
  tables.facts = {
      {"run_id", run_id}, {"train_length", 128},   {"pe", stage == "drop" ? "none" : encoding},
      {"step", 300},      {"tokens_seen", 614400}, {"encoding", {{"kind", stage == "drop" ? "none" : encoding}}}};
  if (encoding == "sinusoidal" && stage != "drop") tables.facts["encoding"]["pe_scale"] = "matched";
  artifact::write_eval_tables(path, {}, tables);
  return {path,
          artifact::Kind::kEvalTable,
          "",
          {{"stage", "evaluate"}, {"from", stage}, {"encoding", encoding}, {"seed", std::to_string(seed)}}};
}

inline artifact::Input write_curves(const std::filesystem::path& path, const std::string& encoding,
                                    const std::string& stage, int seed, bool configs = false) {
  const std::int64_t first = stage == "trunk"   ? 0
                             : stage == "decay" ? 240
                                                : 255,
                     last = stage == "trunk"   ? 300
                            : stage == "decay" ? 300
                                               : 330;
  artifact::Table train("train", artifact::train_columns()), validation("validation", artifact::validation_columns());
  const std::uint64_t name = support::fnv1a64(encoding);
  const auto loss_at = [&](std::int64_t step) {
    double loss = 2.95 + 4.7 * std::exp(-static_cast<double>(step) / 45) +
                  0.5 * std::exp(-static_cast<double>(step) / 400) + penalty(encoding, "decay", 1) +
                  noise({7, static_cast<std::uint64_t>(seed), name}, 0.01);
    if (stage == "decay") loss -= 0.15 * static_cast<double>(step - first) / 60;
    if (stage == "drop")
      loss += 0.8 * std::exp(-static_cast<double>(step - first) / 8) - 0.1 * static_cast<double>(step - first) / 75;
    if (stage == "nodrop") loss -= 0.12 * static_cast<double>(step - first) / 75;
    return loss;
  };
  for (std::int64_t step = first + 1; step <= last; ++step) {
    const double loss =
        loss_at(step) + noise({8, static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(step)}, 0.06);
    train.add_row({step, step * 2048, loss, loss / std::log(2.0) / 3.4, 3e-3, 0.7, 0});
  }
  for (std::int64_t step = first == 0 ? 30 : (first / 30 + 1) * 30; step <= last; step += 30) {
    const double loss = loss_at(step) + 0.05;
    validation.add_row({step, step * 2048, loss, loss / std::log(2.0) / 3.4, 20000, 68000});
  }
  artifact::Tables tables;
  tables.tables = {std::move(train), std::move(validation)};
  tables.facts = {{"encoding", {{"kind", stage == "drop" ? "none" : encoding}}},
                  {"seed", seed},
                  {"parameters", 1180000},
                  {"first_step", first},
                  {"length", 128},
                  {"status", "ok"}};
  artifact::Recipe recipe;
  if (configs) {
    recipe.config = {
        {"model",
         {{"width", 64}, {"layers", 3}, {"heads", 4}, {"vocabulary", 512}, {"tied", true}, {"encoding", encoding}}},
        {"train",
         {{"batch", 16},
          {"length", 128},
          {"peak_lr", 3e-3},
          {"schedule", stage == "trunk" ? "wsd" : "linear"},
          {"seed", seed}}}};
    recipe.inputs = {{"data", {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}}};
  }
  artifact::write_metrics(path, recipe, tables);
  return {
      path, artifact::Kind::kMetrics, "", {{"stage", stage}, {"encoding", encoding}, {"seed", std::to_string(seed)}}};
}

/// A workspace with inputs under `folder` and the report's folder as output.
inline artifact::Workspace write_inputs(const std::filesystem::path& folder, const Options& options = {}) {
  artifact::Workspace workspace;
  workspace.progress = &support::silent_progress();
  workspace.outputs["report"] = folder / "report";
  int number = 0;
  for (const std::string& stage : options.stages) {
    for (const std::string& encoding : options.encodings) {
      if (encoding == "none" && stage != "decay") continue;  // nothing to drop
      for (const int seed : options.seeds) {
        workspace.inputs["scores"].push_back(
            write_scores(folder / support::cat("scores", number++, ".h5"), options, encoding, stage, seed));
      }
    }
  }
  if (!options.curves) return workspace;
  std::vector<std::string> stages{"trunk"};
  stages.insert(stages.end(), options.stages.begin(), options.stages.end());
  for (const std::string& stage : stages) {
    for (const std::string& encoding : options.encodings) {
      if (encoding == "none" && stage != "trunk" && stage != "decay") continue;
      for (const int seed : options.seeds) {
        workspace.inputs["curves"].push_back(
            write_curves(folder / support::cat("curves", number++, ".h5"), encoding, stage, seed, options.configs));
      }
    }
  }
  return workspace;
}

}  // namespace pe::report::sample
