/// @file
/// Everything that was gathered, as one model of a comparison. An arm is one side of it: an encoding and its variant,
/// which is all else but the seed that distinguishes runs (the stage that made them, a branch). Seeds repeat an arm.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "artifact/table.h"
#include "artifact/workspace.h"
#include "report/claims/claims.h"
#include "schema/language_modelling.h"
#include "statistics/sequential.h"
#include "support/config.h"
#include "support/json.h"

namespace pe::report {

/// A study that adds seeds until a claim is decided. Its tests are corrected for repeated looks.
struct SequentialConfig {
  std::string claim;  ///< id; empty: no such study
  std::int64_t from = 3, most = 3;
  double alpha = 0.05;

  void describe(support::FieldVisitor& v);
  statistics::Looks looks() const { return {static_cast<std::size_t>(from), static_cast<std::size_t>(most)}; }
};

struct ReportConfig {
  std::string title;                 ///< empty: the pipeline's, else a default
  std::vector<std::string> labels;   ///< "scores from=decay,encoding=rope,seed=42", one per artifact that was asked for
  std::vector<std::string> missing;  ///< "scores encoding=rope,seed=43: the training failed"
  std::vector<std::string> left_out;  ///< labels of the pipeline that this run leaves out: "encoding=alibi"
  std::string baseline = "rope";
  std::int64_t train_length = 0;  ///< 0: as the artifacts say
  std::vector<std::string> palette;
  std::vector<std::string> notes;  ///< sentences for captions, such as the scale of absolute encodings
  std::string claims;              ///< a file of claims to test (claims.h); empty: none
  SequentialConfig sequential;
  std::vector<std::string> select{"lr"};  ///< axes of which one value is chosen for each encoding
  std::vector<std::string> select_seeds;  ///< seeds that only select; empty: the compared seeds select
  std::vector<std::string>
      figures;  ///< of tables that the report does not know: "table=my_entropy x=distance y=entropy"
  std::vector<std::string> data_names;  ///< "7ad24d42=generated stories"
  std::vector<std::string> highlight;   ///< encodings in colour where there are many
  std::string primary;                  ///< the deciding endpoint, declared before the run
  bool rankings = false;                ///< also how far rankings depend on protocol and seed
  std::string latex_protocol;           ///< the only one in tables for papers; empty: all
  std::string x_unit = "tokens";        ///< the x axis of curves over a training: tokens, steps, flops, hours

  void describe(support::FieldVisitor& v);
};

using Labels = std::map<std::string, std::string>;

struct Run {
  Labels labels;
  std::string encoding;
  std::string variant;  ///< empty when only encodings and seeds distinguish runs
  std::string seed;
  std::string run_id;
  std::string file;                  ///< paths of its artifacts, for messages
  std::vector<std::string> digests;  ///< content digests of its artifacts, where the task's document names them
  std::int64_t step = -1;
  double tokens_seen = 0;
  std::int64_t train_length = 0;  ///< tokens of a training window; 0 where nothing says it
  bool selected = true;           ///< false: another value of an axis such as the learning rate was chosen
  Json facts = Json::object();
};

/// One run under one protocol at one context length.
struct LmCell {
  std::size_t run = 0;
  std::string corpus;
  std::string protocol;
  std::int64_t length = 0;
  std::int64_t stride = 0;
  std::string status = "ok";
  double nll = 0;  ///< mean, nats per token; infinite on overflow, NaN where there is none
  double bpb = 0;
  double documents = 0;
  double context = std::numeric_limits<double>::quiet_NaN();  ///< tokens before a scored one, mean
  std::vector<schema::DocumentScore> scores;                  ///< sorted by id
};

struct Trial {
  std::size_t run = 0;
  std::string task;
  std::int64_t length = 0;
  double depth = 0;  ///< NaN where facts are at several
  std::string item;  ///< names the item within its task and length; the same in every run
  double exact = 0;
  double digits = 0;
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
  double peak_rate = std::numeric_limits<double>::quiet_NaN();  ///< largest learning rate that was logged
  Json config;  ///< of the training, as its artifact says: groups model, train, … without compute; null where it does
                ///< not
  Json inherited =
      Json::object();     ///< of a branch, whose config has no group model: from the training that it continues
  std::string data;       ///< content digests of its data
  std::string parent;     ///< content digest of the checkpoint that it continues; empty for one from scratch, or where
                          ///< none is known
  double first_step = 0;  ///< where it forked off another training; 0 for one from scratch
  bool diverged = false;
};

/// A choice among the values of an axis for one encoding, made on the loss on validation data at the end of training.
struct Selection {
  struct Candidate {
    std::string label;
    std::vector<double> losses;  ///< of each seed; NaN of a training that diverged or logged none
    double mean = 0;
  };
  std::string axis, encoding, of;     ///< `of`: the other labels of the trainings, "size=small"
  std::vector<Candidate> candidates;  ///< by the number that they name, where they do
  std::string chosen;                 ///< empty: no value has a loss in every seed, and none is compared
  bool at_edge = false;    ///< the least or largest value was chosen: a better one may be outside
  bool own_seeds = false;  ///< chosen on seeds that are not compared
};

struct Arm {
  std::string encoding;
  std::string variant;
  std::vector<std::size_t> runs;  ///< by seed, as gathered
};

/// A table that was read from the scores.
struct GatheredTable {
  std::size_t run = 0;
  std::string where;  ///< for messages
  artifact::Table table;
};

/// The loss of an ideal reader with so much context, less the loss of one who remembers everything (pe-ideal-reader).
struct IdealLoss {
  Labels labels;                     ///< of the text, where several were gathered
  double position = 0, context = 0;  ///< bytes: of text with so much before it
  double nats = 0;                   ///< a byte
};

struct Results {
  std::string title;
  std::vector<Run> runs;  ///< of the scores, as gathered
  std::vector<Arm> arms;  ///< by variant, then by encoding, each in order of first use
  std::vector<std::string> variants;
  std::vector<std::string> encodings;  ///< of all runs and curves: the order in every figure
  std::vector<LmCell> lm;
  std::vector<Trial> trials;
  std::vector<TaskCell> retrieval;
  std::vector<TaskCell> tasks;
  std::vector<IdealLoss> ideal;  ///< empty where none was gathered
  std::vector<Curve> curves;
  std::vector<Curve> unselected_curves;  ///< of values that were not chosen
  std::vector<Selection> selections;
  /// Of the scores, by name, as gathered. Those whose rows are `lm`, `trials`, `retrieval` or `tasks` are kept
  /// for claims alone.
  std::map<std::string, std::vector<GatheredTable>> tables;
  std::vector<std::string> missing;
  std::vector<std::string> left_out;  ///< "encoding=alibi"
  std::vector<std::string> copies;    ///< "rope with seed 2 is the model of seed 1": models that count once
  std::vector<std::string> notes;
  std::int64_t train_length = 0;  ///< of every run; 0 when nothing says it, or runs differ: then see the runs
  std::string baseline;
  std::string primary;
  std::vector<std::string> highlight;
  bool rankings = false;
  std::string x_unit = "tokens";
  std::vector<std::string> palette;
  std::vector<std::string> figures, data_names;  ///< as in ReportConfig
  std::vector<ClaimSpec> claims;
  SequentialConfig sequential;
  /// Every row of every table that was read, as CSV with the labels in front: file name → text.
  std::vector<std::pair<std::string, std::string>> data;

  // Found by an index, which is made when first asked and again when cells were added.
  const LmCell* find_lm(std::size_t run, const std::string& protocol, std::int64_t length) const;
  const TaskCell* find_task(std::size_t run, const std::string& task, std::int64_t length) const;
  const TaskCell* find_retrieval(std::size_t run, const std::string& task, std::int64_t length) const;
  std::vector<const Trial*> find_trials(std::size_t run, const std::string& task, std::int64_t length) const;

 private:
  using Place = std::tuple<std::size_t, std::string, std::int64_t>;
  using Index = std::map<Place, std::vector<std::size_t>>;
  template <typename Item, typename Name>
  static const std::vector<std::size_t>* places(const std::vector<Item>& items, Name name,
                                                std::pair<std::size_t, Index>& index, const Place& place);
  mutable std::pair<std::size_t, Index> lm_index_, task_index_, retrieval_index_, trial_index_;  ///< of how many items
};

/// Whether the axes that both have, have the same label. The stages that made them do not count.
bool labels_agree(const Labels& a, const Labels& b);

/// "scores stage=decay,encoding=rope" → role and labels. @throws ConfigError
std::pair<std::string, Labels> parse_labels(const std::string& text);

/// Whether a stage of this project writes tables of that name; users' stages write others.
bool is_known_table(const std::string& name);

/// Reads what was gathered. @throws ArtifactError when a table lacks a column; ConfigError when labels do not fit.
Results read_results(const ReportConfig& config, const artifact::Workspace& workspace);

/// Chooses one value of each of these axes for each encoding by the mean validation loss over seeds, where all of its
/// trainings logged one. Values that were not chosen leave the arms, and the axis no longer distinguishes models. An
/// encoding without a choice leaves with all of its values; if none has a choice, nothing changes. With `seeds`, only
/// these choose and leave the comparison.
/// @return the axes that were chosen from
/// @throws ConfigError when an encoding has no training with such a seed, or none with another
std::vector<std::string> select_values(const std::vector<std::string>& axes, Results& results,
                                       const std::vector<std::string>& seeds = {});

/// A label in the name of an arm: "drop"; a bare number has its axis, "depth 4".
std::string label_text(const std::string& axis, const std::string& label);
/// "rope", or "rope, drop" for an arm with a variant and `with_variant`.
std::string arm_name(const Arm& arm, bool with_variant);

}  // namespace pe::report
