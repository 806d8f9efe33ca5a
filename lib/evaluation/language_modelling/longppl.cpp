// LongPPL: the perplexity of those tokens alone for which a long context matters, as another model says (the input
// `reference`), so that the many tokens that any model says from the last few do not drown them.
#include <algorithm>
#include <cmath>

#include "evaluation/language_modelling/key_tokens.h"
#include "evaluation/model_scorer.h"
#include "evaluation/task.h"
#include "statistics/estimates.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using artifact::Cell;
using support::cat;

class LongPpl final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("gain", rule_.gain, "Nats that the full context saves the reference on a key token, at least.",
            {.unit = "nats", .min = 0, .max = 1000, .neutral = Json(2.0)});
    v.field("most", rule_.most, "Nats that a key token costs the reference with the full context, at most.",
            {.unit = "nats", .min = 0, .max = 1000, .neutral = Json(2.0)});
  }

  void run(TaskContext& context) const override {
    const std::string corpus = context.documents.split();
    const auto missing = [&](std::int64_t length, const char* why) {
      context.results.add({{"lm_longppl",
                            {{corpus, context.reference_name, length, 0, Cell(), Cell(), Cell(), Cell(), Cell(), Cell(), Cell(), Cell(),
                              Cell(), why}}}});
    };
    if (context.reference == nullptr) {
      for (const std::int64_t length : context.lengths) missing(length, status::kReference);
      return;
    }
    const auto reference = make_model_scorer(*context.reference, context.settings.batch_tokens);
    const Capabilities& known = reference->capabilities();
    const std::int64_t separator = context.text.bos() ? 1 : 0;
    const std::int64_t least = std::min(context.settings.min_documents, context.settings.documents);
    std::vector<std::int64_t> usable;   // lengths that the reference was trained for, and that documents hold
    for (const std::int64_t length : context.lengths) {
      const auto& limit = context.scorer.capabilities().max_positions;
      if (length > known.train_length) missing(length, status::kReference);
      else if (limit && length > *limit) missing(length, status::kPositions);
      else if (count_documents(context.documents, length - separator) < least) missing(length, status::kSkipped);
      else usable.push_back(length);
    }
    if (usable.empty()) return;
    const std::vector<std::int64_t> documents =
        select_documents(context.documents, usable.back() - separator, context.settings.documents);
    const Rows& marks = context.results.item("longppl/marks", [&] { return mark(context, *reference, documents, usable.back()); });
    for (const std::int64_t length : usable) {
      const Rows& rows = context.results.item(cat("longppl/", length), [&] {
        return score(context, short_context(known), documents, marks, length);
      });
      summarise(context, length, rows);
      context.progress.note(cat("longppl: ", length, " tokens are done"));
    }
  }

 private:
  /// A document's first tokens, behind a separator where the data has one.
  static std::vector<std::int32_t> text_of(const TaskContext& context, std::int64_t id, std::int64_t length) {
    std::vector<std::int32_t> ids;
    if (context.text.bos()) ids.push_back(*context.text.bos());
    const Document document = context.documents.read(id, length - static_cast<std::int64_t>(ids.size()));
    ids.insert(ids.end(), document.ids.begin(), document.ids.end());
    return ids;
  }

  Rows mark(TaskContext& context, Scorer& reference, const std::vector<std::int64_t>& documents, std::int64_t length) const {
    const std::int64_t separator = context.text.bos() ? 1 : 0;
    Rows rows;
    for (const std::int64_t id : documents) {
      const Document document = context.documents.read(id, length - separator);
      std::vector<std::int64_t> ends = {0};   // bytes up to each token
      for (const std::int32_t bytes : document.bytes) ends.push_back(ends.back() + bytes);
      for (const KeyToken& token : key_tokens(reference, text_of(context, id, length), rule_, context.settings.draws)) {
        const auto at = static_cast<std::size_t>(token.place - separator);
        rows["lm_key_tokens"].push_back({context.documents.split(), context.reference_name, id, static_cast<std::int64_t>(at), ends[at],
                                         ends[at + 1], token.full, token.less});
      }
    }
    return rows;
  }

  /// For each document: candidates, what they cost, key tokens, what these cost.
  static Rows score(TaskContext& context, std::int64_t first, const std::vector<std::int64_t>& documents, const Rows& marks,
                    std::int64_t length) {
    const std::int64_t separator = context.text.bos() ? 1 : 0;
    static const std::vector<Row> none;   // where no token is marked
    const auto found = marks.find("lm_key_tokens");
    const std::vector<Row>& marked = found == marks.end() ? none : found->second;
    std::vector<Sequence> sequences;
    for (const std::int64_t id : documents) {
      Sequence sequence{.ids = text_of(context, id, length), .first = std::min(first, length), .last = length};
      sequence.guesses = false;
      sequences.push_back(std::move(sequence));
    }
    const std::vector<MeanScore> scores = score_all(context.scorer, sequences, context.settings.draws);
    Rows rows;
    for (std::size_t d = 0; d < documents.size(); ++d) {
      double all = 0, key = 0;
      for (const double nll : scores[d].nll) all += nll;
      std::int64_t keys = 0;
      for (const Row& row : marked) {
        const std::int64_t place = std::llround(number(row[3])) + separator;
        if (std::llround(number(row[2])) != documents[d] || place >= length) continue;
        key += scores[d].nll[static_cast<std::size_t>(place - sequences[d].first)];
        ++keys;
      }
      rows["lm_longppl_doc"].push_back({context.documents.split(), length, documents[d], static_cast<std::int64_t>(scores[d].nll.size()),
                                        all, keys, key});
    }
    return rows;
  }

  static void summarise(TaskContext& context, std::int64_t length, const Rows& rows) {
    std::vector<double> candidates, all, keys, key;
    double total = 0, found = 0;
    for (const Row& row : rows.at("lm_longppl_doc")) {
      candidates.push_back(number(row[3]));
      all.push_back(number(row[4]));
      keys.push_back(number(row[5]));
      key.push_back(number(row[6]));
      total += candidates.back();
      found += keys.back();
    }
    Row summary = {context.documents.split(),
                   context.reference_name,
                   length,
                   rows.at("lm_longppl_doc").size(),
                   static_cast<std::int64_t>(total),
                   static_cast<std::int64_t>(found),
                   total > 0 ? Cell(found / total) : Cell(),
                   total > 0 ? Cell(std::exp(statistics::ratio_of_sums(all, candidates).value)) : Cell()};
    if (found == 0) {
      for (int i = 0; i < 5; ++i) summary.emplace_back();
      summary.emplace_back(status::kNone);
    } else {
      const statistics::Ratio mean = statistics::ratio_of_sums(key, keys);
      for (const double value : {mean.value, std::exp(mean.value), mean.se, mean.low(), mean.high()})
        summary.emplace_back(value);
      summary.emplace_back(std::isfinite(std::exp(mean.value)) ? status::kOk : status::kOverflow);
    }
    context.results.add({{"lm_longppl", {summary}}});
  }

  KeyRule rule_;
};

}  // namespace

TaskEntry longppl_task() {
  return {.name = "longppl",
          .summary = "Perplexity of the tokens that need a long context, as the input `reference` says which.",
          .tables = {"lm_key_tokens", "lm_longppl_doc", "lm_longppl"},
          .make = make_task<LongPpl>};
}

}  // namespace pe::evaluation
