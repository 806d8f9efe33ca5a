// The algorithmic task that a model was trained on, by length: exact match, token accuracy, and how far they reach. For
// a model of text: tasks with solved examples in the prompt. Items come from their keys, so every model meets the same
// ones.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "data/tasks/algorithmic_task.h"
#include "evaluation/algorithmic/in_context.h"
#include "evaluation/task.h"
#include "statistics/estimates.h"
#include "support/missing.h"
#include "support/parse_json.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

using support::kMissing;
constexpr double kSolved = 0.9;     // of len90
constexpr double kConfident = 0.8;  // Hewitt et al. 2020

/// Labels of a part of an example, or at a distance from the tokens that decide them; only the journal sees these rows.
struct LabelCounts {
  std::int64_t number = 0;  ///< of the part; tokens back
  std::int64_t hits = 0;    ///< right answers; confident ones
  std::int64_t all = 0;

  double share() const { return static_cast<double>(hits) / static_cast<double>(all); }
  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("number", row.number, "", "of the part; tokens back");
    column("hits", row.hits, "", "right answers; confident ones");
    column("all", row.all, "", "all labels");
  }
};
struct PartCounts : LabelCounts {
  static constexpr const char* kName = "algorithmic.by_part";
};
struct DistanceCounts : LabelCounts {
  static constexpr const char* kName = "algorithmic.by_distance";
};

/// Name of the task's own tables where there is no task.
constexpr const char* kNoTask = "algorithmic";

class Algorithmic final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field(
        "lengths", lengths_,
        "Lengths to test, in the task's own terms; empty: the longest of training, then 1.25, 1.5, 2 and 4 times that, "
        "or the next that the task has.",
        {.min = 1, .neutral = Json::array()});
    v.field("train", train_,
            "The longest length of training; 0: as in the task's source. Lengths beyond it are out of distribution.",
            {.min = 0, .neutral = Json(0)});
    v.field("examples", examples_, "Items at each length.", {.min = 1, .max = 1000000, .neutral = Json(512)});
    v.field("options", options_,
            "Options of the task that differ from training, as `name=value`: blanks=2 of selcopy, ignore=0.98 "
            "of flipflop.",
            {.neutral = Json::array()});
    v.field("in_context", in_context_,
            "Tasks of pe-generate for a language model in its own tokens, after solved examples. By default "
            "lengths are a quarter, half and all of the longest training length of the source.",
            {.neutral = Json::array()});
    v.field("shots", shots_, "Solved examples before each item that is asked in context, as long as the item.",
            {.min = 0, .max = 1000, .neutral = Json(4)});
    for (const std::string& name : in_context_) {
      v.check(data::find_task(name) != nullptr, cat("unknown task ", support::quote(name), " in in_context; ",
                                                    support::suggestion(name, data::task_names())));
    }
  }

  void run(TaskContext& context) const override {
    if (!in_context_.empty() && !context.trained_task.is_null()) {
      throw support::ConfigError("eval.algorithmic.in_context names tasks, but the data is of a task itself", {},
                                 "leave in_context out, or evaluate a model of text");
    }
    if (!in_context_.empty()) {
      for (const std::string& name : in_context_) in_context(context, name);
      return;
    }
    if (context.trained_task.is_null()) {
      // The rows say that it was asked for and why there is nothing.
      context.progress.warn(
          "algorithmic: the model reads text; eval.algorithmic.in_context names tasks to ask it in its own tokens");
      context.results.add_row(missing(kNoTask, 0, status::kVocabulary));
      return;
    }
    Json value = context.trained_task;
    if (value.is_string()) value = {{"kind", value}};
    for (const std::string& option : options_) {
      const std::size_t equals = option.find('=');
      Json parsed = equals == std::string::npos ? Json() : support::parse_json(option.substr(equals + 1));
      if (equals == std::string::npos) {
        throw support::ConfigError(
            cat("eval.algorithmic.options: expected name=value, found ", support::quote(option)));
      }
      if (parsed.is_discarded()) parsed = option.substr(equals + 1);
      value[option.substr(0, equals)] = std::move(parsed);
    }
    const data::ChosenTask chosen = data::choose_task(value);
    if (chosen.task->vocabulary() != context.scorer.capabilities().vocabulary) {
      throw support::ConfigError(
          cat("task '", chosen.name, "' has ", chosen.task->vocabulary(), " symbols with these options, the model ",
              context.scorer.capabilities().vocabulary),
          {}, "leave options that change the symbols out of eval.algorithmic.options");
    }
    const std::int64_t trained = train_ > 0 ? train_ : chosen.generator->train.high;
    std::vector<std::int64_t> lengths = lengths_;
    if (lengths.empty()) {
      const std::array<double, 5> times = {1.0, 1.25, 1.5, 2.0, 4.0};
      for (std::size_t i = 0; i < times.size(); ++i) {
        // The next length that the task has, up to the next multiple.
        std::int64_t length = std::llround(times[i] * static_cast<double>(trained));
        const double end = (i + 1 < times.size() ? times[i + 1] : 2 * times[i]) * static_cast<double>(trained);
        while (chosen.task->weight(length) <= 0 && length < std::llround(end)) ++length;
        if (chosen.task->weight(length) > 0) lengths.push_back(length);
      }
    }
    std::sort(lengths.begin(), lengths.end());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
    std::vector<Point> curve;
    for (const std::int64_t length : lengths) curve.push_back(at_length(context, chosen, length));
    context.results.add(reach(chosen.name, curve, trained));
  }

 private:
  struct Point {
    std::int64_t length;
    double exact, token;
    const char* state;
  };

  schema::Rows score_examples(TaskContext& context, const data::ChosenTask& chosen, std::int64_t length,
                              const std::vector<data::TaskExample>& examples) const {
    std::vector<Sequence> sequences;
    for (const data::TaskExample& example : examples) {
      Sequence sequence;
      sequence.ids = example.ids;
      sequence.labels = example.labels;
      sequence.unjudged = example.unjudged;
      sequence.among = chosen.task->rivals();
      sequences.push_back(std::move(sequence));
    }
    const std::vector<MeanScore> scores = score_all(context.scorer, sequences, context.settings.draws);
    schema::Rows made;
    std::map<std::int32_t, std::pair<std::int64_t, std::int64_t>> by_distance, by_part;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      double correct = 0, judged = 0, nll = 0;
      std::size_t target = 0;
      for (std::size_t t = 0; t < examples[i].labels.size(); ++t) {
        if (examples[i].labels[t] == data::kUnlabelled) continue;
        if (examples[i].unjudged.empty() || examples[i].unjudged[t] == 0) {
          correct += scores[i].correct[target];
          nll += scores[i].nll[target];
          judged += 1;
          if (!examples[i].part.empty() && examples[i].part[t] != 0) {
            auto& [right, all] = by_part[examples[i].part[t]];
            right += scores[i].correct[target] > 0.5 ? 1 : 0;
            ++all;
          }
          if (!scores[i].among_share.empty() && !examples[i].distance.empty()) {
            auto& [confident, all] = by_distance[examples[i].distance[t]];
            confident += scores[i].among_share[target] > kConfident ? 1 : 0;
            ++all;
          }
        }
        ++target;
      }
      made.add(schema::AlgoTrial{.task = chosen.name,
                                 .split = "test",
                                 .length = length,
                                 .trial = static_cast<std::int64_t>(i),
                                 .size = std::ssize(examples[i].ids),
                                 .em = scores[i].exact,
                                 .token_correct = correct,
                                 .token_total = static_cast<std::int64_t>(judged),
                                 .nll_sum = nll});
    }
    for (const auto& [part, counts] : by_part) {
      made.add(PartCounts{{part, counts.first, counts.second}});
    }
    for (const auto& [distance, counts] : by_distance) {
      made.add(DistanceCounts{{distance, counts.first, counts.second}});
    }
    return made;
  }

  Point at_length(TaskContext& context, const data::ChosenTask& chosen, std::int64_t length) const {
    const auto& limit = context.scorer.capabilities().max_positions;
    const char* state = chosen.task->weight(length) > 0 ? status::kOk : status::kLength;
    std::vector<data::TaskExample> examples;
    if (state == status::kOk) {
      for (std::int64_t i = 0; i < examples_; ++i) {
        examples.push_back(
            data::make_example(*chosen.task, chosen.name, data::kTaskTestSeed, data::Split::kTest, length, i));
        // One item that does not fit makes the cell n/a: the others would be a selection.
        if (limit && static_cast<std::int64_t>(examples.back().ids.size()) > *limit) state = status::kPositions;
      }
    }
    if (state != status::kOk) {
      context.progress.note(cat(chosen.name, " at ", length, " ", chosen.generator->length, ": ", state));
      context.results.add_row(missing(chosen.name, length, state));
      return {length, kMissing, kMissing, state};
    }
    const schema::Rows& rows = context.results.item(cat("algorithmic/", chosen.name, "/", length),
                                                    [&] { return score_examples(context, chosen, length, examples); });
    for (const PartCounts& counts : rows.of<PartCounts>()) {
      context.results.add_row(schema::AlgoLength{chosen.name, cat(chosen.task->part(), "_", counts.number, "_", length),
                                                 counts.share(), status::kOk});
    }
    if (const auto& distances = rows.of<DistanceCounts>(); !distances.empty()) {
      double shares = 0;
      for (const DistanceCounts& counts : distances) shares += counts.share();
      context.results.add_row(schema::AlgoLength{chosen.name, cat("confident_", length),
                                                 shares / static_cast<double>(distances.size()), status::kOk});
    }
    double chance_exact = 0, chance_token = 0;
    const std::vector<std::int32_t> answers = chosen.task->answers();
    for (const data::TaskExample& example : examples) {
      const data::TaskChance chance = data::chance_of(example, answers);
      chance_exact += chance.exact;
      chance_token += chance.token;
    }
    const auto n = static_cast<double>(examples.size());
    return summarise(context, chosen.name, length, rows.of<schema::AlgoTrial>(), {chance_exact / n, chance_token / n});
  }

  /// A task that the model was not trained on, by lengths, after solved examples.
  void in_context(TaskContext& context, const std::string& task) const {
    const data::ChosenTask chosen = data::choose_task(Json(task));
    const std::string name = "in_context_" + task;
    const InContextPrompts prompts(context.text, chosen, shots_);
    std::vector<std::int64_t> lengths = lengths_;
    const std::int64_t longest = chosen.generator->train.high;
    if (lengths.empty()) lengths = {(longest + 3) / 4, (longest + 1) / 2, longest};
    std::sort(lengths.begin(), lengths.end());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
    const auto& limit = context.scorer.capabilities().max_positions;
    for (const std::int64_t length : lengths) {
      const char* state = chosen.task->weight(length) > 0 ? status::kOk : status::kLength;
      std::vector<InContextItem> items;
      for (std::int64_t i = 0; i < examples_ && state == status::kOk; ++i) {
        auto item = prompts.item(length, i);
        if (!item) {
          state = status::kMeasure;
          break;
        }
        const auto tokens = static_cast<std::int64_t>(item->ids.size());
        if (tokens > context.lengths.back())
          state = status::kLength;
        else if (limit && tokens > *limit)
          state = status::kPositions;
        items.push_back(std::move(*item));
      }
      if (state != status::kOk) {
        context.progress.note(cat(name, " at ", length, " ", chosen.generator->length, ": ", state));
        context.results.add_row(missing(name, length, state));
        continue;
      }
      const schema::Rows& rows = context.results.item(cat("algorithmic/", name, "/", length),
                                                      [&] { return ask(context, name, length, items); });
      data::TaskChance chance;
      for (const InContextItem& item : items) {
        chance.exact += item.chance.exact / static_cast<double>(items.size());
        chance.token += item.chance.token / static_cast<double>(items.size());
      }
      summarise(context, name, length, rows.of<schema::AlgoTrial>(), chance);
    }
  }

  /// A symbol is right when each of its tokens is; over draws the smallest share is an upper bound.
  static schema::Rows ask(TaskContext& context, const std::string& name, std::int64_t length,
                          const std::vector<InContextItem>& items) {
    std::vector<Sequence> sequences;
    for (const InContextItem& item : items) {
      sequences.push_back({item.ids, item.answer_begin, static_cast<std::int64_t>(item.ids.size())});
    }
    const std::vector<MeanScore> scores = score_all(context.scorer, sequences, context.settings.draws);
    schema::Rows made;
    for (std::size_t i = 0; i < items.size(); ++i) {
      double exact = 1, correct = 0, nll = 0;
      std::int64_t judged = 0;
      std::size_t token = 0;
      for (std::size_t symbol = 0; symbol < items[i].symbol_tokens.size(); ++symbol) {
        double right = 1, loss = 0;
        for (std::int64_t n = 0; n < items[i].symbol_tokens[symbol]; ++n, ++token) {
          right = std::min(right, scores[i].correct[token]);
          loss += scores[i].nll[token];
        }
        if (items[i].judged[symbol] == 0) continue;
        exact = std::min(exact, right);
        correct += right;
        nll += loss;
        ++judged;
      }
      made.add(schema::AlgoTrial{.task = name,
                                 .split = "test",
                                 .length = length,
                                 .trial = static_cast<std::int64_t>(i),
                                 .size = std::ssize(items[i].ids),
                                 .em = exact,
                                 .token_correct = correct,
                                 .token_total = judged,
                                 .nll_sum = nll});
    }
    return made;
  }

  static Point summarise(TaskContext& context, const std::string& name, std::int64_t length,
                         const std::vector<schema::AlgoTrial>& trials, const data::TaskChance& chance) {
    double exact = 0, correct = 0, judged = 0;
    std::vector<double> nll, targets;
    for (const schema::AlgoTrial& row : trials) {
      exact += row.em;
      correct += row.token_correct;
      targets.push_back(static_cast<double>(row.token_total));
      judged += targets.back();
      nll.push_back(row.nll_sum);
    }
    const auto n = static_cast<double>(trials.size());
    const statistics::Ratio per_target = statistics::ratio_of_sums(nll, targets);
    const statistics::Interval interval = statistics::wilson(exact, n);
    context.results.add_row(
        schema::AlgoSummary{.task = name,
                            .split = "test",
                            .length = length,
                            .n = std::ssize(trials),
                            .em = exact / n,
                            .token_acc = correct / judged,
                            .nll_target = per_target.value,
                            .chance_em = chance.exact,
                            .chance_tok = chance.token,
                            .em_lo = interval.low,
                            .em_hi = interval.high,
                            .se_nll = per_target.se,
                            .status = std::isfinite(per_target.value) ? status::kOk : status::kOverflow});
    context.progress.advance(cat(name, ": lengths"), length, length);
    return {length, exact / n, correct / judged, status::kOk};
  }

  /// Means beyond training, and how far exact match stays at 0.9.
  static schema::Rows reach(const std::string& name, const std::vector<Point>& curve, std::int64_t trained) {
    double exact = 0, token = 0, beyond = 0, len90 = kMissing;
    bool whole = true, solved = true;
    const char* gap = status::kPositions;
    for (const Point& point : curve) {
      if (std::isnan(point.exact) && point.length > trained) {
        if (whole) gap = point.state;
        whole = false;
      }
      solved = solved && point.exact >= kSolved;
      if (solved) len90 = static_cast<double>(point.length);
      if (point.length <= trained) continue;
      exact += point.exact;
      token += point.token;
      beyond += 1;
    }
    schema::Rows rows;
    const auto add = [&](const char* measure, double value, const char* otherwise) {
      rows.add(schema::AlgoLength{name, measure, value, std::isnan(value) ? otherwise : status::kOk});
    };
    const char* why = beyond == 0 ? status::kUncovered : gap;
    add("ood_mean_em", beyond > 0 && whole ? exact / beyond : kMissing, why);
    add("ood_mean_token_acc", beyond > 0 && whole ? token / beyond : kMissing, why);
    add("len90", len90, status::kNone);
    add("ext_ratio", len90 / static_cast<double>(trained), status::kNone);
    return rows;
  }

  static schema::AlgoSummary missing(const std::string& name, std::int64_t length, const char* state) {
    return {.task = name, .split = "test", .length = length, .status = state};
  }

  std::vector<std::int64_t> lengths_;
  std::int64_t train_ = 0;
  std::int64_t examples_ = 512;
  std::vector<std::string> options_;
  std::vector<std::string> in_context_;
  std::int64_t shots_ = 4;
};

}  // namespace

TaskEntry algorithmic_task() {
  return {.name = "algorithmic",
          .summary =
              "The algorithmic task that the model was trained on (pe-generate), by length, or tasks that a model of "
              "text is shown examples of.",
          .tables = {"algo_trial", "algo_summary", "algo_length"},
          .make = make_task<Algorithmic>};
}

}  // namespace pe::evaluation
