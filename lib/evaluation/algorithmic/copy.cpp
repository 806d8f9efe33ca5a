// In-context repetition: a separator, n distinct pieces of the model's own vocabulary, a newline, the same n pieces. A
// model that looks back n + 1 tokens gets it right without knowing any language.
#include <algorithm>
#include <cmath>

#include "evaluation/items.h"
#include "evaluation/task.h"
#include "statistics/estimates.h"
#include "support/missing.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

class Copy final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("trials", trials_, "Sequences at each length.", {.min = 1, .max = 100000});
  }

  void run(TaskContext& context) const override {
    const std::vector<std::int32_t> pieces = context.text.ordinary_pieces();
    const std::vector<std::int32_t> newline = context.text.encode_inside("\n");
    const std::int64_t around = (context.text.bos() ? 1 : 0) + static_cast<std::int64_t>(newline.size());
    for (const std::int64_t length : context.lengths) {
      const std::int64_t n = (length - around) / 2;
      const char* state = status::kOk;
      const auto& limit = context.scorer.capabilities().max_positions;
      if (n < 1)
        state = status::kLength;
      else if (limit && length > *limit)
        state = status::kPositions;
      else if (n > static_cast<std::int64_t>(pieces.size()))
        state = status::kVocabulary;
      if (state != status::kOk) {
        context.progress.note(cat("copy at ", length, " tokens: ", state));
        context.results.add_row(
            schema::AlgoSummary{.task = "copy", .split = "test", .length = length, .status = state});
        continue;
      }
      const schema::Rows& rows =
          context.results.item(cat("copy/", length), [&] { return trials_at(context, length, n, pieces, newline); });
      summarise(context, length, n, rows.of<schema::AlgoTrial>());
    }
  }

 private:
  schema::Rows trials_at(TaskContext& context, std::int64_t length, std::int64_t n,
                         const std::vector<std::int32_t>& pieces, const std::vector<std::int32_t>& newline) const {
    std::vector<Sequence> sequences;
    for (std::int64_t trial = 0; trial < trials_; ++trial) {
      support::Xoshiro random(item_key("copy", Split::kTest, length, trial));
      std::vector<std::int32_t> shown;
      for (const std::uint64_t index : random.sample(pieces.size(), static_cast<std::uint64_t>(n))) {
        shown.push_back(pieces[index]);
      }
      Sequence sequence;
      if (context.text.bos()) sequence.ids.push_back(*context.text.bos());
      sequence.ids.insert(sequence.ids.end(), shown.begin(), shown.end());
      sequence.ids.insert(sequence.ids.end(), newline.begin(), newline.end());
      sequence.first = static_cast<std::int64_t>(sequence.ids.size());
      sequence.ids.insert(sequence.ids.end(), shown.begin(), shown.end());
      sequence.last = static_cast<std::int64_t>(sequence.ids.size());
      sequences.push_back(std::move(sequence));
    }
    const std::vector<MeanScore> scores = score_all(context.scorer, sequences, context.settings.draws);
    schema::Rows rows;
    for (std::size_t trial = 0; trial < scores.size(); ++trial) {
      double correct = 0, nll = 0;
      for (double value : scores[trial].correct) correct += value;
      for (double value : scores[trial].nll) nll += value;
      rows.add(schema::AlgoTrial{.task = "copy",
                                 .split = "test",
                                 .length = length,
                                 .trial = static_cast<std::int64_t>(trial),
                                 .size = n,
                                 .em = scores[trial].exact,
                                 .token_correct = correct,
                                 .token_total = n,
                                 .nll_sum = nll});
    }
    return rows;
  }

  static void summarise(TaskContext& context, std::int64_t length, std::int64_t n,
                        const std::vector<schema::AlgoTrial>& trials) {
    double exact = 0, correct = 0;
    std::vector<double> nll, targets;
    for (const schema::AlgoTrial& row : trials) {
      exact += row.em;
      correct += row.token_correct;
      targets.push_back(static_cast<double>(row.token_total));
      nll.push_back(row.nll_sum);
    }
    const double count = static_cast<double>(trials.size());
    const statistics::Ratio per_target = statistics::ratio_of_sums(nll, targets);
    const statistics::Interval interval = statistics::wilson(exact, count);
    const double pieces = static_cast<double>(n);
    // A guess among the pieces shown is right one time in n, and on all n of them almost never.
    context.results.add_row(
        schema::AlgoSummary{.task = "copy",
                            .split = "test",
                            .length = length,
                            .n = std::ssize(trials),
                            .em = exact / count,
                            .token_acc = correct / (count * pieces),
                            .nll_target = per_target.value,
                            .chance_em = std::pow(1 / pieces, pieces),
                            .chance_tok = 1 / pieces,
                            .em_lo = interval.low,
                            .em_hi = interval.high,
                            .se_nll = per_target.se,
                            .status = std::isfinite(per_target.value) ? status::kOk : status::kOverflow});
  }

  std::int64_t trials_ = 32;
};

}  // namespace

TaskEntry copy_task() {
  return {.name = "copy",
          .summary = "In-context repetition of distinct pieces of the model's own tokenizer.",
          .tables = {"algo_trial", "algo_summary"},
          .make = make_task<Copy>};
}

}  // namespace pe::evaluation
