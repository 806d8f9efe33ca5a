// Circuits by their attention: the text is m random pieces, twice. Measured are the heads that look at the token
// before, at the same token in the first copy, or at the one after it, and the lower loss of the second copy.
#include <ATen/ops/arange.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>
#include <limits>

#include "encodings/attention/attend.h"
#include "evaluation/items.h"
#include "evaluation/probes/probe_texts.h"
#include "statistics/estimates.h"
#include "support/missing.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

constexpr std::array<const char*, 3> kScores = {"previous", "duplicate", "induction"};

class Circuits final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("sequences", sequences_, "Texts at each length.", {.min = 1, .max = 100000, .neutral = Json(128)});
  }

  void run(TaskContext& context) const override {
    const model::LanguageModel& model = probed_model(context);
    const std::vector<std::int32_t> pieces = context.text.ordinary_pieces();
    for (const std::int64_t length : context.lengths) {
      const std::int64_t m = length / 2;
      const auto& limit = context.scorer.capabilities().max_positions;
      const char* state = status::kOk;
      if (m < 3)
        state = status::kLength;
      else if (limit && 2 * m > *limit)
        state = status::kPositions;
      else if (pieces.size() < 2)
        state = status::kVocabulary;
      if (state != status::kOk) {
        for (const char* score : {kScores[0], kScores[1], kScores[2], "in_context_gain"}) {
          context.results.add_row(schema::ProbeCircuitSummary{.m = m, .measure = score, .status = state});
        }
        continue;
      }
      context.results.item(cat("circuits/", m), [&] { return at_length(context, model, pieces, m); });
    }
  }

 private:
  /// Texts of m random tokens and the same ones again.
  std::vector<TokenIds> repeated_texts(const std::vector<std::int32_t>& pieces, std::int64_t m) const {
    std::vector<TokenIds> texts;
    for (std::int64_t index = 0; index < sequences_; ++index) {
      support::Xoshiro random(probe_key("circuits", m, index));
      TokenIds ids;
      if (m <= static_cast<std::int64_t>(pieces.size())) {  // distinct where there are enough: no copy but the second
        for (const std::uint64_t at : random.sample(pieces.size(), static_cast<std::uint64_t>(m)))
          ids.push_back(pieces[at]);
      } else {
        for (std::int64_t i = 0; i < m; ++i) ids.push_back(pieces[random.below(pieces.size())]);
      }
      const TokenIds again = ids;
      ids.insert(ids.end(), again.begin(), again.end());
      texts.push_back(std::move(ids));
    }
    return texts;
  }

  schema::Rows at_length(TaskContext& context, const model::LanguageModel& model,
                         const std::vector<std::int32_t>& pieces, std::int64_t m) const {
    const std::vector<TokenIds> texts = repeated_texts(pieces, m);
    const std::int64_t heads = model.config().heads, layers = model.config().layers;
    // Sums over sequences and queries of the second copy, [layers, scores, H].
    at::Tensor sums = at::zeros({layers, 3, heads}, at::kDouble);
    model::Hooks hooks;
    hooks.rows = [&](std::int64_t layer, const encodings::AttentionRows& seen) {
      const std::int64_t begin = std::max(seen.rows.begin, m), end = seen.rows.end;
      if (begin >= end) return;
      const at::Tensor own = seen.weights.narrow(2, begin - seen.rows.begin, end - begin);
      const at::Tensor queries =
          at::arange(begin, end, at::TensorOptions(at::kLong).device(own.device())).view({1, 1, -1, 1});
      const std::array<std::int64_t, 3> back = {1, m, m - 1};
      for (std::size_t score = 0; score < back.size(); ++score) {
        const at::Tensor keys = (queries - back[score]).expand({own.size(0), own.size(1), -1, 1});
        sums[layer][static_cast<std::int64_t>(score)].add_(
            own.gather(3, keys).to(at::kDouble).sum(at::IntArrayRef{0, 2, 3}).to(at::kCPU));
      }
    };
    in_batches(model, texts, context.settings.batch_tokens,
               [&](std::int64_t first, const at::Tensor& ids) { forward_with_hooks(model, ids, first, hooks); });
    sums.div_(static_cast<double>(sequences_ * m));

    schema::Rows rows;
    std::array<double, 3> best;
    std::array<std::pair<std::int64_t, std::int64_t>, 3> where{};
    best.fill(-std::numeric_limits<double>::infinity());
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      for (std::int64_t head = 0; head < heads; ++head) {
        schema::ProbeCircuit row{.m = m, .layer = layer, .head = head};
        const std::array<double*, 3> values = {&row.previous, &row.duplicate, &row.induction};  // as kScores
        for (std::int64_t score = 0; score < 3; ++score) {
          const double value = sums[layer][score][head].item<double>();
          *values[static_cast<std::size_t>(score)] = value;
          if (value > best[static_cast<std::size_t>(score)]) {
            best[static_cast<std::size_t>(score)] = value;
            where[static_cast<std::size_t>(score)] = {layer, head};
          }
        }
        rows.add(std::move(row));
      }
    }
    for (std::size_t score = 0; score < 3; ++score) {
      rows.add(schema::ProbeCircuitSummary{.m = m,
                                           .n = sequences_,
                                           .measure = kScores[score],
                                           .value = std::isfinite(best[score]) ? best[score] : kMissing,
                                           .layer = where[score].first,
                                           .head = where[score].second,
                                           .status = std::isfinite(best[score]) ? status::kOk : status::kOverflow});
    }
    // The same tokens at their first and at their second occurrence, each predicted from the one before it in its copy.
    const auto first = summed_losses(model, texts, 1, m, context.settings.batch_tokens);
    const auto second = summed_losses(model, texts, m + 1, 2 * m, context.settings.batch_tokens);
    std::vector<double> gains;
    for (std::size_t i = 0; i < first.size(); ++i) gains.push_back((first[i] - second[i]) / static_cast<double>(m - 1));
    const statistics::Ratio gain = statistics::mean_with_error(gains);
    rows.add(schema::ProbeCircuitSummary{.m = m,
                                         .n = sequences_,
                                         .measure = "in_context_gain",
                                         .value = gain.value,
                                         .se = gain.se,
                                         .status = std::isfinite(gain.value) ? status::kOk : status::kOverflow});
    return rows;
  }

  std::int64_t sequences_ = 128;
};

}  // namespace

TaskEntry circuits_task() {
  return {.name = "circuits",
          .summary = "Probe: heads that look at the token before, at a copy, or behind it; gain of a second copy.",
          .tables = {"probe_circuit", "probe_circuit_summary"},
          .make = make_task<Circuits>};
}

}  // namespace pe::evaluation
