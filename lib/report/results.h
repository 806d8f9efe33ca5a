/// @file
/// Everything that was gathered, as one model of a comparison. An arm is what is compared: an encoding, and what else
/// tells runs apart besides the seed (the stage that made them, a branch), called its variant. Seeds repeat an arm.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "artifact/table.h"
#include "artifact/workspace.h"
#include "report/claims.h"
#include "report/statistics.h"
#include "support/config.h"
#include "support/json.h"

namespace pe::report {

struct ReportConfig {
  std::string title;                 ///< empty: the pipeline's, else words of our own
  std::vector<std::string> labels;   ///< "scores from=decay,encoding=rope,seed=42", one per artifact that was asked for
  std::vector<std::string> missing;  ///< "scores encoding=rope,seed=43: the training failed"
  std::string baseline = "rope";
  std::int64_t train_length = 0;  ///< 0: as the artifacts say
  std::vector<std::string> palette;
  std::vector<std::string> notes;  ///< sentences for captions, such as the scale of absolute encodings
  std::string claims;              ///< a file of claims to test (claims.h); empty: none
  std::string primary;             ///< what was to decide, declared before the run

  void describe(support::FieldVisitor& v);
};

using Labels = std::map<std::string, std::string>;

struct Run {
  Labels labels;
  std::string encoding;
  std::string variant;  ///< empty when only encodings and seeds tell runs apart
  std::string seed;
  std::string run_id;
  std::string file;  ///< name of the artifact, for messages
  std::int64_t step = -1;
  double tokens_seen = 0;
  Json facts = Json::object();
};

struct DocumentScore {
  std::string id;
  double tokens = 0;
  double bytes = 0;
  double nll = 0;
};

/// One run under one protocol at one context length.
struct LmCell {
  std::size_t run = 0;
  std::string corpus;
  std::string protocol;
  std::int64_t length = 0;
  std::int64_t stride = 0;
  std::string bos_policy;
  std::string status = "ok";
  double nll = 0;  ///< mean, nats a token; infinite on overflow, NaN where there is none
  double bpb = 0;
  double documents = 0;
  std::vector<DocumentScore> scores;  ///< sorted by id
};

struct Trial {
  std::size_t run = 0;
  std::string task;
  std::int64_t length = 0;
  double depth = 0;
  double exact = 0;
  double digits_right = 0, digits = 0;
  double nll = 0, nll_control = 0;
};

/// A summary row of a task by length; retrieval's serve for statuses where there are no trials.
struct TaskCell {
  std::size_t run = 0;
  std::string task;
  std::int64_t length = 0;
  double n = 0;
  double exact = 0, token_accuracy = 0, nll = 0;
  double chance = 0;  ///< token accuracy of guessing; NaN when not stated
  std::string status = "ok";
};

/// A row of the table `dummy_grid`: structured rows after so many epochs, nats a target.
struct DummyCell {
  std::size_t run = 0;
  std::string mode;      ///< seed, fixed, fixed_by_base, hard, hard_echo
  std::string network;   ///< "post_norm_over_batch", …
  std::int64_t depth = 0, epochs = 0;
  std::string seed;
  double headline = 0, all = 0, determined = 0, accuracy = 0;   ///< NaN where there is none
  std::vector<double> positions;                                ///< of the targets of positions 0 to 7
  double wrap = 0;
};

/// A row of `dummy_targets`.
struct DummyTargetCell {
  std::size_t run = 0;
  std::string mode, network, seed;
  std::int64_t depth = 0, epochs = 0;
  std::string variant;   ///< plain, shift_8, long
  std::string target;    ///< first, step, det, …
  double loss = 0, accuracy = 0;
  std::string status = "ok";
};

struct CurvePoint {
  double step = 0;
  double tokens = 0;
  double loss = 0;
  double bpb = 0;
};

struct Curve {
  Run run;
  std::vector<CurvePoint> train;
  std::vector<CurvePoint> validation;
  double peak_rate = std::numeric_limits<double>::quiet_NaN();   ///< largest learning rate that was logged
  double first_step = 0;  ///< where it forked off another training; 0 for one from scratch
  bool diverged = false;
};

struct Arm {
  std::string encoding;
  std::string variant;
  std::vector<std::size_t> runs;  ///< by seed, as gathered
};

/// A table of the scores as it was read.
struct GatheredTable {
  std::size_t run = 0;
  std::string where;   ///< for messages
  artifact::Table table;
};

struct Results {
  std::string title;
  std::vector<Run> runs;  ///< of the scores, as gathered
  std::vector<Arm> arms;  ///< variants as they come, encodings as they come
  std::vector<std::string> variants;
  std::vector<std::string> encodings;  ///< of all runs and curves: the order in every figure
  std::vector<LmCell> lm;
  std::vector<Trial> trials;
  std::vector<TaskCell> retrieval;
  std::vector<TaskCell> tasks;
  std::vector<DummyCell> dummy;
  std::vector<DummyTargetCell> dummy_targets;
  std::vector<Curve> curves;
  std::map<std::string, std::vector<GatheredTable>> tables;   ///< of the scores, by name, as gathered
  std::vector<std::string> missing;
  std::vector<std::string> notes;
  std::int64_t train_length = 0;  ///< 0 when nothing says it, or runs differ
  std::string baseline;
  std::string primary;
  std::vector<std::string> palette;
  std::vector<ClaimSpec> claims;
  /// Every row of every table that was read, as CSV with the labels in front: file name → text.
  std::vector<std::pair<std::string, std::string>> data;

  const LmCell* find_lm(std::size_t run, const std::string& protocol, std::int64_t length) const;
};

/// "scores stage=decay,encoding=rope" → role and labels. @throws ConfigError
std::pair<std::string, Labels> parse_labels(const std::string& text);

/// Reads what was gathered. @throws ArtifactError when a table lacks a column; ConfigError when labels do not fit.
Results read_results(const ReportConfig& config, const artifact::Workspace& workspace);

/// "rope", or "rope, drop" when variants are told apart and `with_variant`.
std::string arm_name(const Arm& arm, bool with_variant);

}  // namespace pe::report
