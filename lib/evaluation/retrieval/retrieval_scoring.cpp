#include "evaluation/retrieval/retrieval_scoring.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "evaluation/items.h"
#include "statistics/estimates.h"
#include "support/missing.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::kMissing;
constexpr double kAcquired = 0.5;

/// One for each trial; only the journal sees it.
struct TrialParts {
  static constexpr const char* kName = "retrieval.parts";
  double right = 0;  ///< parts of the answer that are right
  std::int64_t parts = 0;
  double right_digits = 0;  ///< digits that are the most probable among digits
  double digits = 0;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("right", row.right, "", "parts of the answer that are right");
    column("parts", row.parts, "", "all of them");
    column("right_digits", row.right_digits, "", "digits that are the most probable among digits");
    column("digits", row.digits, "", "all of them");
  }
};

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

std::vector<std::int32_t> digit_ids(const TextCodec& codec) {
  std::vector<std::int32_t> ids;
  for (char digit = '0'; digit <= '9'; ++digit) {
    // After another digit, as in the middle of a number.
    const std::vector<std::int32_t> pair = codec.encode_inside(std::string("5") + digit);
    if (pair.size() != 2 || std::find(ids.begin(), ids.end(), pair[1]) != ids.end()) return {};
    ids.push_back(pair[1]);
  }
  return ids;
}

schema::Rows score_items(TaskContext& context, const std::string& task, const std::string& variant, std::int64_t length,
                         const std::vector<RetrievalItem>& items) {
  const std::vector<std::int32_t> digits = digit_ids(context.text);
  std::vector<Sequence> sequences;  // of an item: prompt, control, then each wrong answer
  for (const RetrievalItem& item : items) {
    const auto end = static_cast<std::int64_t>(item.prompt.ids.size());
    sequences.push_back({item.prompt.ids, item.prompt.answer_begin, end});
    sequences.back().among = digits;
    sequences.push_back({item.prompt.control, item.prompt.answer_begin, end});
    sequences.back().guesses = false;
    for (const std::string& other : item.others) {
      std::vector<std::int32_t> ids = with_answer(context.text, item.prompt, other);
      const auto other_end = static_cast<std::int64_t>(ids.size());
      sequences.push_back({std::move(ids), item.prompt.answer_begin, other_end});
      sequences.back().guesses = false;
    }
  }
  const std::vector<MeanScore> scores = score_all(context.scorer, sequences, context.settings.draws);
  schema::Rows rows;
  std::size_t at = 0;
  for (const RetrievalItem& item : items) {
    const MeanScore& asked = scores[at];
    const double nll = sum(asked.nll), control = sum(scores[at + 1].nll);
    double better = 0, tied = 1;
    for (std::size_t c = 0; c < item.others.size(); ++c) {
      const double other = sum(scores[at + 2 + c].nll);
      if (other < nll) better += 1;
      if (other == nll) tied += 1;
    }
    at += 2 + item.others.size();
    const bool ranked = !item.others.empty() && !std::isnan(nll);
    rows.add(schema::RetrievalTrial{.task = task,
                                    .variant = variant,
                                    .length = length,
                                    .depth = item.depth,
                                    .trial = item.trial,
                                    .prompt_tokens = item.prompt.answer_begin,
                                    .em = asked.exact,
                                    .digit_correct = sum(asked.correct),
                                    .digit_total = std::ssize(asked.nll),
                                    .nll_key = nll,
                                    .nll_key_control = control,
                                    .rank = ranked ? 1 + better + (tied - 1) / 2 : kMissing,
                                    .rank_score = ranked ? (better == 0 ? 1 / tied : 0) : kMissing,
                                    .n_candidates = std::ssize(item.others) + 1,
                                    .landed = item.landed});
    // A part is right when each of its tokens is; over draws the smallest share is an upper bound.
    double parts = 0;
    std::size_t token = 0;
    for (const std::int64_t tokens : item.prompt.answer_tokens) {
      double right = 1;
      for (std::int64_t i = 0; i < tokens; ++i) right = std::min(right, asked.correct[token++]);
      parts += right;
    }
    double confined = 0, of_digits = 0;
    for (std::size_t i = 0; i < asked.among.size(); ++i) {
      const std::int32_t target = item.prompt.ids[static_cast<std::size_t>(item.prompt.answer_begin) + i];
      if (std::find(digits.begin(), digits.end(), target) == digits.end()) continue;
      confined += asked.among[i];
      of_digits += 1;
    }
    rows.add(TrialParts{parts, std::ssize(item.prompt.answer_tokens), confined, of_digits});
  }
  return rows;
}

namespace {

/// Trials of a cell, by column.
struct TrialColumns {
  std::vector<double> exact, correct, tokens, nll, control, gain, ranked, landed, reciprocal;
  double candidates = 1;

  void add(const schema::RetrievalTrial& row) {
    exact.push_back(row.em);
    correct.push_back(row.digit_correct);
    tokens.push_back(static_cast<double>(row.digit_total));
    nll.push_back(row.nll_key);
    control.push_back(row.nll_key_control);
    gain.push_back((control.back() - nll.back()) / tokens.back());
    ranked.push_back(row.rank_score);
    landed.push_back(row.landed);
    reciprocal.push_back(1 / row.rank);
    candidates = static_cast<double>(row.n_candidates);
  }
};

/// Right parts and digits of the trials.
struct PartColumns {
  std::vector<double> right, all, right_digits, digits;

  void add(const TrialParts& row) {
    right.push_back(row.right);
    all.push_back(static_cast<double>(row.parts));
    right_digits.push_back(row.right_digits);
    digits.push_back(row.digits);
  }
};

void add_summary(const std::string& task, const std::string& variant, std::int64_t length, const std::string& name,
                 const TrialColumns& of, schema::Rows& rows) {
  const double n = static_cast<double>(of.exact.size());
  const statistics::Interval interval = statistics::wilson(sum(of.exact), n);
  const double token = statistics::ratio_of_sums(of.nll, of.tokens).value;
  const double token_control = statistics::ratio_of_sums(of.control, of.tokens).value;
  const statistics::Ratio mean_gain = statistics::mean_with_error(of.gain);
  rows.add(schema::RetrievalSummary{.task = task,
                                    .variant = variant,
                                    .length = length,
                                    .depth = name,
                                    .n = std::ssize(of.exact),
                                    .em = sum(of.exact) / n,
                                    .em_lo = interval.low,
                                    .em_hi = interval.high,
                                    .digit_acc = statistics::ratio_of_sums(of.correct, of.tokens).value,
                                    .nll_token = token,
                                    .nll_token_control = token_control,
                                    .gain = mean_gain.value,
                                    .se_gain = mean_gain.se,
                                    .recovered = token_control > 0 ? mean_gain.value / token_control : kMissing,
                                    .rank_acc = sum(of.ranked) / n,
                                    .landed = sum(of.landed) / n,
                                    .status = std::isfinite(token) ? status::kOk : status::kOverflow});
}

void add_ladder(const std::string& task, const std::string& variant, std::int64_t length, const TrialColumns& of,
                const PartColumns& parts, schema::Rows& rows) {
  const double n = static_cast<double>(of.exact.size());
  const bool blown_up = !std::isfinite(statistics::ratio_of_sums(of.nll, of.tokens).value);
  const auto add = [&](const char* measure, double value, double low, double high, double chance) {
    rows.add(schema::RetrievalLadder{.task = task,
                                     .variant = variant,
                                     .length = length,
                                     .measure = measure,
                                     .value = value,
                                     .ci_lo = low,
                                     .ci_hi = high,
                                     .chance = chance,
                                     .n = std::ssize(of.exact),
                                     .status = blown_up            ? status::kOverflow
                                               : std::isnan(value) ? status::kMeasure
                                                                   : status::kOk});
  };
  // Tokens and parts of an item are not independent, so their intervals are over trials.
  const auto add_ratio = [&](const char* measure, const std::vector<double>& y, const std::vector<double>& x,
                             double chance) {
    const statistics::Ratio share = statistics::ratio_of_sums(y, x);
    add(measure, share.value, share.low(), share.high(), chance);
  };
  const statistics::Interval whole = statistics::wilson(sum(of.exact), n);
  add("S0", sum(of.exact) / n, whole.low, whole.high, kMissing);
  add_ratio("parts", parts.right, parts.all, kMissing);
  add_ratio("S1", of.correct, of.tokens, kMissing);
  if (sum(parts.digits) > 0)
    add_ratio("S1_digits", parts.right_digits, parts.digits, 0.1);
  else
    add("S1_digits", kMissing, kMissing, kMissing, kMissing);
  const statistics::Ratio mean_gain = statistics::mean_with_error(of.gain);
  add("S2_gain", mean_gain.value, mean_gain.low(), mean_gain.high(), 0);
  const double control_token = statistics::ratio_of_sums(of.control, of.tokens).value;
  add("S2_recovered", control_token > 0 ? mean_gain.value / control_token : kMissing, kMissing, kMissing, 0);
  if (of.candidates > 1) {
    const statistics::Interval ranking = statistics::wilson(sum(of.ranked), n);
    const double chance = 1 / of.candidates;
    add("S3", sum(of.ranked) / n, ranking.low, ranking.high, chance);
    const statistics::Ratio mrr = statistics::mean_with_error(of.reciprocal);
    double by_chance = 0;  // the mean of 1/rank over ranks that are equally likely
    for (double rank = 1; rank <= of.candidates; ++rank) by_chance += 1 / rank / of.candidates;
    add("S3_mrr", mrr.value, mrr.low(), mrr.high(), by_chance);
    const auto above = [&](double score) { return (score - chance) / (1 - chance); };
    add("S4", above(sum(of.ranked) / n), above(ranking.low), above(ranking.high), 0);
  } else {
    for (const char* measure : {"S3", "S3_mrr", "S4"}) add(measure, kMissing, kMissing, kMissing, kMissing);
  }
}

}  // namespace

RetrievalScore summarise_items(TaskContext& context, const std::string& task, const std::string& variant,
                               std::int64_t length, const std::vector<double>& depths, const schema::Rows& scored) {
  const std::vector<schema::RetrievalTrial>& trials = scored.of<schema::RetrievalTrial>();
  schema::Rows rows;
  for (const double depth : depths) {
    TrialColumns columns;
    for (const schema::RetrievalTrial& row : trials) {
      if (row.depth == depth) columns.add(row);
    }
    add_summary(task, variant, length, support::shortest(depth), columns, rows);
  }
  TrialColumns all;
  for (const schema::RetrievalTrial& row : trials) all.add(row);
  add_summary(task, variant, length, "all", all, rows);
  PartColumns parts;
  for (const TrialParts& row : scored.of<TrialParts>()) parts.add(row);
  add_ladder(task, variant, length, all, parts, rows);
  context.results.add(rows);
  return {length, sum(all.exact) / static_cast<double>(trials.size())};
}

std::optional<RetrievalItem> item_of(std::optional<HaystackPrompt> prompt, const Question& question, std::size_t fact) {
  if (!prompt) return std::nullopt;
  const double landed = prompt->landed.at(fact);
  return RetrievalItem{.prompt = std::move(*prompt), .others = question.others, .landed = landed};
}

std::optional<RetrievalItems> items_at_depths(
    const std::string& task, std::int64_t length, const std::vector<double>& depths, std::int64_t trials,
    const std::function<std::optional<RetrievalItem>(support::Xoshiro&, double depth)>& make) {
  RetrievalItems items;
  for (const double depth : depths) {
    for (std::int64_t trial = 0; trial < trials; ++trial) {
      support::Xoshiro random(item_key(task, Split::kTest, length, std::llround(depth * 10000) * 100000 + trial));
      std::optional<RetrievalItem> item = make(random, depth);
      if (!item) return std::nullopt;
      item->depth = depth;
      item->trial = trial;
      items.push_back(std::move(*item));
    }
  }
  return items;
}

std::optional<RetrievalItems> items_of_trials(
    const std::string& task, std::int64_t length, std::int64_t trials,
    const std::function<std::optional<RetrievalItem>(support::Xoshiro&)>& make) {
  RetrievalItems items;
  for (std::int64_t trial = 0; trial < trials; ++trial) {
    support::Xoshiro random(item_key(task, Split::kTest, length, trial));
    std::optional<RetrievalItem> item = make(random);
    if (!item) return std::nullopt;
    item->trial = trial;
    items.push_back(std::move(*item));
  }
  return items;
}

void run_retrieval(TaskContext& context, const RetrievalTask& task,
                   const std::function<std::optional<RetrievalItems>(std::int64_t length)>& make) {
  std::vector<RetrievalScore> scores;
  const auto& limit = context.scorer.capabilities().max_positions;
  for (const std::int64_t length : context.lengths) {
    const char* state = status::kOk;
    if (limit && length > *limit)
      state = status::kPositions;
    else if (task.available < length)
      state = status::kSkipped;
    std::optional<RetrievalItems> items;
    if (state == status::kOk && !(items = make(length))) state = status::kLength;
    if (state != status::kOk) {
      add_missing(context, task.name, task.variant, length, task.depths, state);
      continue;
    }
    std::vector<double> depths = task.depths;
    if (depths.empty()) {
      for (const RetrievalItem& item : *items) {
        if (!std::isnan(item.depth)) depths.push_back(item.depth);
      }
      std::sort(depths.begin(), depths.end());
      depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
    }
    const schema::Rows& rows = context.results.item(support::cat(task.name, "/", length), [&] {
      return score_items(context, task.name, task.variant, length, *items);
    });
    scores.push_back(summarise_items(context, task.name, task.variant, length, depths, rows));
    context.progress.advance(support::cat(task.name, ": lengths"), static_cast<std::int64_t>(scores.size()),
                             static_cast<std::int64_t>(context.lengths.size()));
  }
  add_own_context(context, task.name, task.variant, scores);
}

void add_missing(TaskContext& context, const std::string& task, const std::string& variant, std::int64_t length,
                 const std::vector<double>& depths, const char* why) {
  schema::Rows rows;
  const auto add = [&](const std::string& depth) {
    rows.add(
        schema::RetrievalSummary{.task = task, .variant = variant, .length = length, .depth = depth, .status = why});
  };
  for (const double depth : depths) add(support::shortest(depth));
  add("all");
  rows.add(schema::RetrievalLadder{
      .task = task, .variant = variant, .length = length, .measure = "S0", .n = 0, .status = why});
  context.progress.note(support::cat(task, " (", variant, ") at ", length, " tokens: ", why));
  context.results.add(rows);
}

void add_own_context(TaskContext& context, const std::string& task, const std::string& variant,
                     const std::vector<RetrievalScore>& scores) {
  const std::int64_t train = context.scorer.capabilities().train_length;
  double own = kMissing;
  for (const RetrievalScore& score : scores) {
    if (score.length == train) own = score.exact;
  }
  schema::Rows rows;
  for (const RetrievalScore& score : scores) {
    const bool acquired = own >= kAcquired;
    rows.add(schema::RetrievalLadder{.task = task,
                                     .variant = variant,
                                     .length = score.length,
                                     .measure = "S5",
                                     .value = acquired ? score.exact / own : kMissing,
                                     .status = std::isnan(own) ? status::kUncovered
                                               : acquired      ? status::kOk
                                                               : status::kNotAcquired});
  }
  if (!scores.empty()) context.results.add(rows);
}

}  // namespace pe::evaluation
