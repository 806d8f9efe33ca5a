// Far position or long context? The same targets are read from C tokens of context whose last one has position P, for
// every C and every P at or beyond it.
#include <algorithm>

#include "encodings/attention/positional_encoding.h"
#include "evaluation/probes/probe_texts.h"
#include "evaluation/windows.h"
#include "statistics/estimates.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

class PositionLoss final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("documents", documents_, "Held-out documents that hold the longest context.",
            {.min = 1, .max = 100000, .neutral = Json(64)});
    v.field("targets", targets_, "Tokens scored at the end of a window, at most half the shortest context.",
            {.unit = "tokens", .min = 1, .neutral = Json(256)});
  }

  void run(TaskContext& context) const override {
    const model::LanguageModel& model = probed_model(context);
    const std::string corpus = context.documents.split();
    const std::int64_t least = std::min(context.settings.min_documents, documents_);
    const auto& limit = context.scorer.capabilities().max_positions;
    const auto missing = [&](std::int64_t length, std::int64_t last, const char* why) {
      context.results.add_row(schema::ProbePositionLoss{
          .corpus = corpus, .context = length, .last = last, .offset = last - length, .status = why});
    };
    std::vector<std::int64_t> held;
    for (const std::int64_t length : context.lengths) {
      if (count_documents(context.documents, length) >= least) held.push_back(length);
    }
    const std::int64_t targets = targets_within(targets_, context.lengths.front());
    std::vector<std::int64_t> ids;
    if (!held.empty()) ids = select_documents(context.documents, held.back(), documents_);
    for (const std::int64_t length : context.lengths) {
      std::vector<double> own;  // Σ nll of each document where positions are counted from 0
      for (const std::int64_t last : context.lengths) {
        if (last < length) continue;
        if (std::find(held.begin(), held.end(), length) == held.end()) {
          missing(length, last, status::kSkipped);
          continue;
        }
        if (last > length && sets_positions(model)) {
          missing(length, last, status::kEncoding);
          continue;
        }
        if (limit && last > *limit) {
          missing(length, last, status::kPositions);
          continue;
        }
        std::vector<double> sums;
        try {
          const schema::Rows& rows = context.results.item(cat("position_loss/", length, "/", last), [&] {
            model::ForwardOptions options;
            options.position = last - length;
            const auto texts = windows_of(context, ids, held.back(), length);
            schema::Rows made;
            for (const double sum :
                 summed_losses(model, texts, length - targets, length, context.settings.batch_tokens, options))
              made.add(DocumentLoss{sum});
            return made;
          });
          for (const DocumentLoss& row : rows.of<DocumentLoss>()) sums.push_back(row.nll);
        } catch (const encodings::RangeError&) {  // a table that is stretched has no bound, and no moved positions
          missing(length, last, status::kPositions);
          continue;
        }
        if (last == length) own = sums;
        const std::vector<double> scored(sums.size(), static_cast<double>(targets));
        std::vector<double> change;
        for (std::size_t i = 0; i < sums.size(); ++i) change.push_back(sums[i] - own[i]);
        const statistics::Ratio nll = statistics::ratio_of_sums(sums, scored),
                                delta = statistics::ratio_of_sums(change, scored);
        context.results.add_row(
            schema::ProbePositionLoss{.corpus = corpus,
                                      .context = length,
                                      .last = last,
                                      .offset = last - length,
                                      .n_docs = std::ssize(sums),
                                      .tokens_scored = std::ssize(sums) * targets,
                                      .nll_mean = nll.value,
                                      .se_nll = nll.se,
                                      .delta = delta.value,
                                      .se = delta.se,
                                      .status = std::isfinite(nll.value) ? status::kOk : status::kOverflow});
      }
    }
  }

 private:
  /// Only the journal sees it.
  struct DocumentLoss {
    static constexpr const char* kName = "position_loss.sums";
    double nll = 0;

    template <typename Row, typename Visitor>
    static void columns(Row& row, Visitor& column) {
      column("nll", row.nll, "nats", "of the targets");
    }
  };

  /// The `length` tokens before one end of each document; the same end at every length.
  static std::vector<TokenIds> windows_of(TaskContext& context, const std::vector<std::int64_t>& ids,
                                          std::int64_t longest, std::int64_t length) {
    std::vector<TokenIds> texts;
    for (const std::int64_t id : ids) {
      const Document document = context.documents.read(id, context.documents.tokens(id));
      const std::int64_t end = anchors(id, static_cast<std::int64_t>(document.ids.size()), longest, 1).front();
      texts.emplace_back(document.ids.begin() + (end - length), document.ids.begin() + end);
    }
    return texts;
  }

  std::int64_t documents_ = 64;
  std::int64_t targets_ = 256;
};

}  // namespace

TaskEntry position_loss_task() {
  return {.name = "position_loss",
          .summary = "Probe: the same targets by amount of context and by position, which other curves mix.",
          .tables = {"probe_position_loss"},
          .make = make_task<PositionLoss>};
}

}  // namespace pe::evaluation
