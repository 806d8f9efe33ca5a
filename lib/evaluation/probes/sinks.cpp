// Attention sinks: how much of the attention the first token gets, whatever it is, with and without a separator there.
#include <cmath>

#include "encodings/attention/attend.h"
#include "evaluation/probes/attention_statistics.h"
#include "evaluation/probes/probe_texts.h"
#include "support/missing.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

class Sinks final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("sequences", sequences_, "Held-out texts that are read, the same for every model.",
            {.min = 1, .max = 100000, .neutral = Json(100)});
    v.field("length", length_, "Tokens of each.", {.unit = "tokens", .min = 2, .neutral = Json(64)});
    v.field("threshold", threshold_, "A head has a sink where its first key gets more than this share.",
            {.min = 0, .max = 1, .neutral = Json(0.3)});
  }

  void run(TaskContext& context) const override {
    const model::LanguageModel& model = probed_model(context);
    for (const bool separator : {true, false}) {
      const char* word = separator ? "first" : "none";
      const auto missing = [&](const char* why) {
        context.results.add_row(schema::ProbeSinkSummary{
            .corpus = context.documents.split(), .length = length_, .separator = word, .status = why});
      };
      if (separator && !context.text.bos()) {
        missing(status::kSeparator);
        continue;
      }
      const ProbeLengths lengths =
          probe_lengths(context, {length_}, sequences_, [&](std::int64_t, const char* why) { missing(why); });
      if (lengths.live.empty()) continue;
      context.results.item(cat("sinks/", word), [&] { return measure(context, model, separator, word); });
    }
  }

 private:
  schema::Rows measure(TaskContext& context, const model::LanguageModel& model, bool separator,
                       const char* word) const {
    const std::int64_t heads = model.config().heads, layers = model.config().layers;
    std::vector<KeyShares> shares(static_cast<std::size_t>(layers), KeyShares(length_));
    struct Sums {
      double first = 0, largest = 0, sinks = 0;
    };
    std::vector<Sums> sums(static_cast<std::size_t>(layers * heads));
    model::Hooks hooks;
    hooks.rows = [&](std::int64_t layer, const encodings::AttentionRows& seen) {
      shares[static_cast<std::size_t>(layer)].add(seen.weights);
    };
    const auto texts =
        probe_texts(context.documents, length_, length_, sequences_, separator ? context.text.bos() : std::nullopt);
    in_batches(model, texts, context.settings.batch_tokens, [&](std::int64_t first, const at::Tensor& ids) {
      forward_with_hooks(model, ids, first, hooks);
      for (std::int64_t layer = 0; layer < layers; ++layer) {
        const at::Tensor alpha = shares[static_cast<std::size_t>(layer)].take().to(at::kCPU);  // [B,H,T]
        const at::Tensor begin = alpha.select(2, 0), largest = alpha.amax(2);
        for (std::int64_t head = 0; head < heads; ++head) {
          Sums& own = sums[static_cast<std::size_t>(layer * heads + head)];
          own.first += begin.select(1, head).sum().item<double>();
          own.largest += largest.select(1, head).sum().item<double>();
          own.sinks += begin.select(1, head).gt(threshold_).sum().item<double>();
          if (!std::isfinite(own.first)) own.sinks = support::kMissing;  // NaN is above no threshold
        }
      }
    });
    const auto n = static_cast<double>(texts.size()), cells = static_cast<double>(sums.size());
    schema::Rows rows;
    Sums all;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      for (std::int64_t head = 0; head < heads; ++head) {
        const Sums& own = sums[static_cast<std::size_t>(layer * heads + head)];
        rows.add(schema::ProbeSink{.corpus = context.documents.split(),
                                   .length = length_,
                                   .separator = word,
                                   .layer = layer,
                                   .head = head,
                                   .n = std::ssize(texts),
                                   .alpha_first = own.first / n,
                                   .alpha_max = own.largest / n,
                                   .rate = own.sinks / n});
        all.first += own.first / n / cells;
        all.largest += own.largest / n / cells;
        all.sinks += own.sinks / n / cells;
      }
    }
    rows.add(schema::ProbeSinkSummary{.corpus = context.documents.split(),
                                      .length = length_,
                                      .separator = word,
                                      .n = std::ssize(texts),
                                      .alpha_first = all.first,
                                      .alpha_max = all.largest,
                                      .rate = all.sinks,
                                      .status = std::isfinite(all.first) ? status::kOk : status::kOverflow});
    return rows;
  }

  std::int64_t sequences_ = 100;
  std::int64_t length_ = 64;
  double threshold_ = 0.3;
};

}  // namespace

TaskEntry sinks_task() {
  return {.name = "sinks",
          .summary = "Probe: share of the attention on the first token, with and without a separator.",
          .tables = {"probe_sink", "probe_sink_summary"},
          .make = make_task<Sinks>};
}

}  // namespace pe::evaluation
