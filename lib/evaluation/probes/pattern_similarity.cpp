// How alike the attention of two models is on the same texts: for each layer the divergence between the two heads that
// are most alike.
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "encodings/attention/attend.h"
#include "evaluation/probes/attention_statistics.h"
#include "evaluation/probes/probe_texts.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

constexpr std::int64_t kRows = 128;  // query rows that are held of both models at a time

class PatternSimilarity final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("sequences", sequences_, "Held-out texts of the training length.",
            {.min = 1, .max = 100000, .neutral = Json(64)});
  }

  void run(TaskContext& context) const override {
    const model::LanguageModel& model = probed_model(context);
    const std::int64_t length = model.config().length;
    const auto missing = [&](const char* why) {
      context.results.add_row(
          schema::ProbeSimilarity{.corpus = context.documents.split(), .length = length, .status = why});
    };
    if (context.reference == nullptr) return missing(status::kReference);
    const ProbeLengths lengths =
        probe_lengths(context, {length}, sequences_, [&](std::int64_t, const char* why) { missing(why); });
    if (lengths.live.empty()) return;
    if (const auto limit = context.reference->encoding().facts().max_positions; limit && length > *limit) {
      return missing(status::kPositions);
    }
    context.results.item("pattern_similarity", [&] { return measure(context, model, *context.reference, length); });
  }

 private:
  /// Weights of the query rows begin .. end of every layer, [B,H,end − begin,T].
  static std::map<std::int64_t, at::Tensor> rows_of(const model::LanguageModel& model, const at::Tensor& ids,
                                                    std::int64_t first, std::int64_t begin, std::int64_t end) {
    std::map<std::int64_t, std::vector<at::Tensor>> parts;
    model::Hooks hooks;
    hooks.rows = [&](std::int64_t layer, const encodings::AttentionRows& seen) {
      const std::int64_t from = std::max(begin, seen.rows.begin), to = std::min(end, seen.rows.end);
      if (from >= to) return;
      const at::Tensor own = seen.weights.narrow(2, from - seen.rows.begin, to - from);
      at::Tensor wide = at::zeros({own.size(0), own.size(1), own.size(2), end}, own.options());
      wide.narrow(3, 0, std::min(end, own.size(3))).copy_(own.narrow(3, 0, std::min(end, own.size(3))));
      parts[layer].push_back(std::move(wide));
    };
    forward_with_hooks(model, ids, first, hooks);
    std::map<std::int64_t, at::Tensor> made;
    for (auto& [layer, list] : parts) made[layer] = list.size() == 1 ? list[0] : at::cat(list, 2);
    return made;
  }

  schema::Rows measure(TaskContext& context, const model::LanguageModel& model, const model::LanguageModel& reference,
                       std::int64_t length) const {
    const std::int64_t layers = std::min(model.config().layers, reference.config().layers);
    const std::int64_t own_heads = model.config().heads, their_heads = reference.config().heads;
    at::Tensor sums = at::zeros({layers, own_heads, their_heads}, at::kDouble);
    const auto texts = probe_texts(context.documents, length, length, sequences_, context.text.bos());
    in_batches(model, texts, context.settings.batch_tokens, [&](std::int64_t first, const at::Tensor& ids) {
      for (std::int64_t begin = 0; begin < length; begin += kRows) {
        const std::int64_t end = std::min(length, begin + kRows);
        const auto own = rows_of(model, ids, first, begin, end), theirs = rows_of(reference, ids, first, begin, end);
        for (std::int64_t layer = 0; layer < layers; ++layer) {
          for (std::int64_t a = 0; a < own_heads; ++a) {
            const at::Tensor p = own.at(layer).narrow(1, a, 1);  // compared with each head of the other model
            sums[layer][a].add_(jensen_shannon(p, theirs.at(layer)).sum(at::IntArrayRef{0, 2}).to(at::kCPU));
          }
        }
      }
    });
    sums.div_(static_cast<double>(static_cast<std::int64_t>(texts.size()) * length));
    schema::Rows rows;
    schema::ProbeSimilarity row{.corpus = context.documents.split(),
                                .length = length,
                                .reference = context.reference_name,
                                .n = std::ssize(texts),
                                .status = status::kOk};
    double total = 0;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      double least = 2;
      std::int64_t head = 0, other = 0;
      for (std::int64_t a = 0; a < own_heads; ++a) {
        for (std::int64_t b = 0; b < their_heads; ++b) {
          const double value = sums[layer][a][b].item<double>();
          if (std::isnan(value) || value < least) std::tie(least, head, other) = std::tuple(value, a, b);
        }
      }
      total += least;
      row.layer = layer;
      row.head = head;
      row.reference_head = other;
      row.divergence = least;
      row.status = std::isfinite(least) ? status::kOk : status::kOverflow;
      rows.add(row);
    }
    row.layer = row.head = row.reference_head = std::nullopt;
    row.divergence = total / static_cast<double>(layers);
    row.status = std::isfinite(total) ? status::kOk : status::kOverflow;
    rows.add(row);
    return rows;
  }

  std::int64_t sequences_ = 64;
};

}  // namespace

TaskEntry pattern_similarity_task() {
  return {.name = "pattern_similarity",
          .summary = "Probe: similarity of the attention of this model and of the input `reference` on the same texts.",
          .tables = {"probe_similarity"},
          .make = make_task<PatternSimilarity>};
}

}  // namespace pe::evaluation
