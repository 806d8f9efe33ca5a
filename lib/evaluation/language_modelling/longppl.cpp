// LongPPL: the perplexity of only those tokens for which a long context matters to another model (the input
// `reference`). The many tokens that any model predicts from the last few then do not dominate.
#include <algorithm>
#include <cmath>

#include "evaluation/language_modelling/key_tokens.h"
#include "evaluation/model_scorer.h"
#include "evaluation/task.h"
#include "statistics/estimates.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

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
      context.results.add_row(
          schema::LongPpl{.corpus = corpus, .reference = context.reference_name, .length = length, .status = why});
    };
    if (context.reference == nullptr) {
      for (const std::int64_t length : context.lengths) missing(length, status::kReference);
      return;
    }
    const auto reference = make_model_scorer(*context.reference, context.settings.batch_tokens);
    const Capabilities& known = reference->capabilities();
    const std::int64_t separator = context.text.bos() ? 1 : 0;
    const std::int64_t least = std::min(context.settings.min_documents, context.settings.documents);
    std::vector<std::int64_t> usable;  // lengths that the reference was trained for, and that documents hold
    for (const std::int64_t length : context.lengths) {
      const auto& limit = context.scorer.capabilities().max_positions;
      if (length > known.train_length)
        missing(length, status::kReference);
      else if (limit && length > *limit)
        missing(length, status::kPositions);
      else if (count_documents(context.documents, length - separator) < least)
        missing(length, status::kSkipped);
      else
        usable.push_back(length);
    }
    if (usable.empty()) return;
    const std::vector<std::int64_t> documents =
        select_documents(context.documents, usable.back() - separator, context.settings.documents);
    const schema::Rows& marks =
        context.results.item("longppl/marks", [&] { return mark(context, *reference, documents, usable.back()); });
    for (const std::int64_t length : usable) {
      const schema::Rows& rows = context.results.item(
          cat("longppl/", length), [&] { return score(context, short_context(known), documents, marks, length); });
      summarise(context, length, rows);
      context.progress.note(cat("longppl: ", length, " tokens are done"));
    }
  }

 private:
  /// A document's first tokens, after a separator where the data has one.
  static std::vector<std::int32_t> text_of(const TaskContext& context, std::int64_t id, std::int64_t length) {
    std::vector<std::int32_t> ids;
    if (context.text.bos()) ids.push_back(*context.text.bos());
    const Document document = context.documents.read(id, length - static_cast<std::int64_t>(ids.size()));
    ids.insert(ids.end(), document.ids.begin(), document.ids.end());
    return ids;
  }

  schema::Rows mark(TaskContext& context, Scorer& reference, const std::vector<std::int64_t>& documents,
                    std::int64_t length) const {
    const std::int64_t separator = context.text.bos() ? 1 : 0;
    schema::Rows rows;
    for (const std::int64_t id : documents) {
      const Document document = context.documents.read(id, length - separator);
      std::vector<std::int64_t> ends = {0};  // bytes up to each token
      for (const std::int32_t bytes : document.bytes) ends.push_back(ends.back() + bytes);
      for (const KeyToken& token : key_tokens(reference, text_of(context, id, length), rule_, context.settings.draws)) {
        const auto at = static_cast<std::size_t>(token.place - separator);
        rows.add(schema::LmKeyToken{.corpus = context.documents.split(),
                                    .reference = context.reference_name,
                                    .doc_id = id,
                                    .token = static_cast<std::int64_t>(at),
                                    .byte_begin = ends[at],
                                    .byte_end = ends[at + 1],
                                    .nll_full = token.full,
                                    .nll_short = token.less});
      }
    }
    return rows;
  }

  /// For each document: candidates and their cost, key tokens and their cost.
  static schema::Rows score(TaskContext& context, std::int64_t first, const std::vector<std::int64_t>& documents,
                            const schema::Rows& marks, std::int64_t length) {
    const std::int64_t separator = context.text.bos() ? 1 : 0;
    std::vector<Sequence> sequences;
    for (const std::int64_t id : documents) {
      Sequence sequence{.ids = text_of(context, id, length), .first = std::min(first, length), .last = length};
      sequence.guesses = false;
      sequences.push_back(std::move(sequence));
    }
    const std::vector<MeanScore> scores = score_all(context.scorer, sequences, context.settings.draws);
    schema::Rows rows;
    for (std::size_t d = 0; d < documents.size(); ++d) {
      double all = 0, key = 0;
      for (const double nll : scores[d].nll) all += nll;
      std::int64_t keys = 0;
      for (const schema::LmKeyToken& mark : marks.of<schema::LmKeyToken>()) {
        const std::int64_t place = mark.token + separator;
        if (mark.doc_id != documents[d] || place >= length) continue;
        key += scores[d].nll[static_cast<std::size_t>(place - sequences[d].first)];
        ++keys;
      }
      rows.add(schema::LongPplDocument{.corpus = context.documents.split(),
                                       .length = length,
                                       .doc_id = documents[d],
                                       .candidates = std::ssize(scores[d].nll),
                                       .nll_sum = all,
                                       .key_tokens = keys,
                                       .key_nll_sum = key});
    }
    return rows;
  }

  static void summarise(TaskContext& context, std::int64_t length, const schema::Rows& rows) {
    std::vector<double> candidates, all, keys, key;
    std::int64_t total = 0, found = 0;
    for (const schema::LongPplDocument& row : rows.of<schema::LongPplDocument>()) {
      candidates.push_back(static_cast<double>(row.candidates));
      all.push_back(row.nll_sum);
      keys.push_back(static_cast<double>(row.key_tokens));
      key.push_back(row.key_nll_sum);
      total += row.candidates;
      found += row.key_tokens;
    }
    schema::LongPpl summary{.corpus = context.documents.split(),
                            .reference = context.reference_name,
                            .length = length,
                            .n_docs = std::ssize(all),
                            .candidates = total,
                            .key_tokens = found,
                            .status = status::kNone};
    if (total > 0) {
      summary.key_share = static_cast<double>(found) / static_cast<double>(total);
      summary.ppl = std::exp(statistics::ratio_of_sums(all, candidates).value);
    }
    if (found > 0) {
      const statistics::Ratio mean = statistics::ratio_of_sums(key, keys);
      summary.nll_mean = mean.value;
      summary.longppl = std::exp(mean.value);
      summary.se = mean.se;
      summary.ci_lo = mean.low();
      summary.ci_hi = mean.high();
      summary.status = summary.longppl <= statistics::kOverflowPerplexity ? status::kOk : status::kOverflow;
    }
    context.results.add_row(std::move(summary));
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
