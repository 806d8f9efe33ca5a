// How far each head looks, how widely, and the position of its peak, at and beyond the training length.
#include <cmath>

#include "encodings/attention/attend.h"
#include "evaluation/probes/attention_statistics.h"
#include "evaluation/probes/probe_texts.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

class Attention final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("sequences", sequences_, "Held-out texts that are read.", {.min = 1, .max = 100000, .neutral = Json(64)});
  }

  void run(TaskContext& context) const override {
    const model::LanguageModel& model = probed_model(context);
    const ProbeLengths lengths =
        probe_lengths(context, context.lengths, sequences_, [&](std::int64_t length, const char* why) {
          context.results.add_row(
              schema::ProbeAttention{.corpus = context.documents.split(), .length = length, .status = why});
        });
    for (const std::int64_t length : lengths.live) {
      context.results.item(cat("attention/", length),
                           [&] { return at_length(context, model, lengths.longest, length); });
      context.progress.note(cat("attention: ", length, " tokens are done"));
    }
  }

 private:
  schema::Rows at_length(TaskContext& context, const model::LanguageModel& model, std::int64_t longest,
                         std::int64_t length) const {
    const std::int64_t heads = model.config().heads, layers = model.config().layers;
    std::vector<AttentionStatistics> statistics(static_cast<std::size_t>(layers), AttentionStatistics(heads, length));
    for (AttentionStatistics& layer : statistics) layer = AttentionStatistics(heads, length);  // copies share tensors
    model::Hooks hooks;
    hooks.rows = [&](std::int64_t layer, const encodings::AttentionRows& seen) {
      statistics[static_cast<std::size_t>(layer)].add(seen.weights, seen.rows.begin);
    };
    const auto texts = probe_texts(context.documents, longest, length, sequences_, context.text.bos());
    in_batches(model, texts, context.settings.batch_tokens,
               [&](std::int64_t first, const at::Tensor& ids) { forward_with_hooks(model, ids, first, hooks); });

    schema::Rows rows;
    const std::string corpus = context.documents.split();
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const AttentionStatistics& own = statistics[static_cast<std::size_t>(layer)];
      for (std::int64_t head = 0; head < heads; ++head) {
        const AttentionFigures all = own.figures(head, 0, length);
        rows.add(schema::ProbeAttention{.corpus = corpus,
                                        .length = length,
                                        .layer = layer,
                                        .head = head,
                                        .n = std::ssize(texts),
                                        .distance = all.distance,
                                        .distance_share = all.distance_share,
                                        .entropy = all.entropy,
                                        .entropy_share = all.entropy_share,
                                        .mass = all.mass,
                                        .status = std::isfinite(all.mass) ? status::kOk : status::kOverflow});
        for (std::int64_t begin = 1; begin < length; begin *= 2) {
          const std::int64_t end = std::min(2 * begin, length);
          const AttentionFigures part = own.figures(head, begin, end);
          rows.add(schema::ProbeAttentionOctave{.corpus = corpus,
                                                .length = length,
                                                .layer = layer,
                                                .head = head,
                                                .query_lo = begin,
                                                .query_hi = end,
                                                .distance = part.distance,
                                                .distance_share = part.distance_share,
                                                .entropy = part.entropy,
                                                .entropy_share = part.entropy_share});
        }
        if (!std::isfinite(all.mass)) continue;  // NaN has no peak
        const std::vector<double> peaks = own.peaks(head);
        for (int bin = 0; bin < AttentionStatistics::kBins; ++bin) {
          rows.add(schema::ProbeArgmax{.corpus = corpus,
                                       .length = length,
                                       .layer = layer,
                                       .head = head,
                                       .bin_lo = static_cast<double>(bin) / AttentionStatistics::kBins,
                                       .bin_hi = static_cast<double>(bin + 1) / AttentionStatistics::kBins,
                                       .share = peaks[static_cast<std::size_t>(bin)]});
        }
      }
    }
    return rows;
  }

  std::int64_t sequences_ = 64;
};

}  // namespace

TaskEntry attention_task() {
  return {.name = "attention",
          .summary = "Probe: attention distance, entropy and where peaks lie, by layer and head.",
          .tables = {"probe_attention", "probe_attention_octave", "probe_argmax"},
          .make = make_task<Attention>};
}

}  // namespace pe::evaluation
