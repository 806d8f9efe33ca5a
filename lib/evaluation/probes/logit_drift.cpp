// The attention logit of a fixed pair of contents against the distance between them, averaged over sampled pairs: of
// the trained model, and of the same model before its training.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <set>

#include "encodings/attention/attend.h"
#include "encodings/attention/token_reader.h"
#include "evaluation/items.h"
#include "evaluation/probes/probe_texts.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

/// 0 .. 8, then four steps an octave, and the longest.
std::vector<std::int64_t> distances_to(std::int64_t longest) {
  std::set<std::int64_t> all;
  for (std::int64_t d = 0; d <= std::min<std::int64_t>(8, longest); ++d) all.insert(d);
  for (double d = 8; d < static_cast<double>(longest); d *= std::pow(2.0, 0.25)) all.insert(std::llround(d));
  all.insert(longest);
  return {all.begin(), all.end()};
}

class LogitDrift final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("pairs", pairs_, "Pairs of a query and a key, each from a token of some held-out text, for every head.",
            {.min = 2, .max = 1 << 20, .neutral = Json(1000)});
    v.field("reach", reach_, "Distances go up to this multiple of the training length.",
            {.min = 1, .max = 1024, .neutral = Json(4.0)});
    v.field("sequences", sequences_, "Held-out texts of the training length from which tokens are taken.",
            {.min = 1, .max = 100000, .neutral = Json(64)});
  }

  void run(TaskContext& context) const override {
    const model::LanguageModel& model = probed_model(context);
    const std::int64_t length = model.config().length;
    const std::int64_t longest = std::llround(reach_ * static_cast<double>(length));
    const auto missing = [&](const char* why) {
      context.results.add_row(schema::ProbeLogit{.network = "trained", .status = why});
    };
    const encodings::Facts facts = model.encoding().facts();
    const encodings::Traits traits = model.encoding().traits(encodings::Span::whole(1, 2));
    // A pair's logit must follow from the pair and its distance: not from other tokens, nor from the embedding.
    if (facts.content_dependent || facts.stochastic || traits.adds_to_tokens || traits.maps_positions ||
        traits.own_logits || traits.rewrites_logits || traits.rows_coupled) {
      missing(status::kEncoding);
      return;
    }
    const ProbeLengths lengths =
        probe_lengths(context, {length}, sequences_, [&](std::int64_t, const char* why) { missing(why); });
    if (lengths.live.empty()) return;
    context.results.item("logit_drift", [&] { return measure(context, "trained", model, length, longest); });
    context.results.item("logit_drift/initial", [&] {
      const model::LanguageModel initial = model::LanguageModel::make(
          model.config(), model.config().vocabulary, model.seed(), model.device(), model.compute_dtype());
      return measure(context, "initial", initial, length, longest);
    });
  }

 private:
  static at::Tensor permutation(std::int64_t count, support::Xoshiro& random) {
    std::vector<std::int64_t> deal(static_cast<std::size_t>(count));
    for (std::int64_t n = 0; n < count; ++n) deal[static_cast<std::size_t>(n)] = n;
    random.shuffle(deal);
    at::Tensor dealt = at::empty({count}, at::kLong);
    std::copy(deal.begin(), deal.end(), dealt.mutable_data_ptr<std::int64_t>());
    return dealt;
  }

  /// Puts the rows of `from`, [heads, T, d_h], into `into` as [n, heads, d_h].
  static void take_rows(const at::Tensor& from, const std::vector<std::int64_t>& rows, std::vector<at::Tensor>& into) {
    if (rows.empty()) return;
    at::Tensor index = at::empty({static_cast<std::int64_t>(rows.size())}, at::kLong);
    std::copy(rows.begin(), rows.end(), index.mutable_data_ptr<std::int64_t>());
    into.push_back(from.index_select(1, index.to(from.device())).transpose(0, 1));  // [n, heads, d_h]
  }

  schema::Rows measure(TaskContext& context, const char* network, const model::LanguageModel& model,
                       std::int64_t length, std::int64_t longest) const {
    const std::int64_t heads = model.config().heads, layers = model.config().layers;
    const auto texts = probe_texts(context.documents, length, length, sequences_, context.text.bos());
    const auto total = static_cast<std::uint64_t>(static_cast<std::int64_t>(texts.size()) * length);
    support::Xoshiro random(probe_key("logit_drift", length, pairs_));
    std::vector<std::vector<std::int64_t>> wanted_q(texts.size()), wanted_k(texts.size());  // rows of each text
    for (std::int64_t n = 0; n < pairs_; ++n) {
      for (auto* wanted : {&wanted_q, &wanted_k}) {
        const std::uint64_t at = random.below(total);
        (*wanted)[at / static_cast<std::uint64_t>(length)].push_back(
            static_cast<std::int64_t>(at % static_cast<std::uint64_t>(length)));
      }
    }
    std::vector<std::vector<at::Tensor>> q(static_cast<std::size_t>(layers)), k(static_cast<std::size_t>(layers));
    std::vector<double> scale(static_cast<std::size_t>(layers), 1);
    std::int64_t begins = 0;
    model::Hooks hooks;
    hooks.heads = [&](std::int64_t layer, const encodings::Heads& of) {
      scale[static_cast<std::size_t>(layer)] = of.scale;
      for (std::int64_t b = 0; b < of.q.size(0); ++b) {
        const auto text = static_cast<std::size_t>(begins + b);
        take_rows(of.q[b], wanted_q[text], q[static_cast<std::size_t>(layer)]);
        take_rows(of.k[b], wanted_k[text], k[static_cast<std::size_t>(layer)]);
      }
    };
    in_batches(model, texts, context.settings.batch_tokens, [&](std::int64_t first, const at::Tensor& ids) {
      begins = first;
      forward_with_hooks(model, ids, first, hooks);
    });

    schema::Rows rows;
    const c10::InferenceMode inference;
    const std::optional<std::int64_t> limit = context.scorer.capabilities().max_positions;
    // A text's tokens are in order, so keys are permuted: the two tokens of a pair then have nothing to do with each
    // other.
    const at::Tensor dealt = permutation(pairs_, random);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const at::Tensor query = at::cat(q[static_cast<std::size_t>(layer)], 0).unsqueeze(2);  // [n, H, 1, d_h]
      const at::Tensor key =
          at::cat(k[static_cast<std::size_t>(layer)], 0).index_select(0, dealt.to(model.device())).unsqueeze(2);
      for (const std::int64_t distance : distances_to(longest)) {
        if (limit && distance >= *limit) {
          if (layer == 0) {
            rows.add(schema::ProbeLogit{.network = network, .distance = distance, .status = status::kPositions});
          }
          continue;
        }
        const at::Tensor logit =
            logits_at(model, static_cast<int>(layer), query, key, scale[static_cast<std::size_t>(layer)], distance,
                      std::max(length, distance + 1));  // [n, H]
        const at::Tensor mean = logit.mean(0).to(at::kCPU), sd = logit.std(0).to(at::kCPU);
        for (std::int64_t head = 0; head < heads; ++head) {
          rows.add(schema::ProbeLogit{.network = network,
                                      .layer = layer,
                                      .head = head,
                                      .distance = distance,
                                      .mean = mean[head].item<double>(),
                                      .sd = sd[head].item<double>(),
                                      .n = pairs_,
                                      .status = status::kOk});
        }
      }
    }
    return rows;
  }

  /// The key at position 0, the query at `distance`: a pass of two rows, of which the first is the key's.
  static at::Tensor logits_at(const model::LanguageModel& model, int layer, const at::Tensor& query,
                              const at::Tensor& key, double scale, std::int64_t distance, std::int64_t told) {
    encodings::PositionalEncoding& encoding = model.encoding();
    encodings::Span span{.batch = query.size(0), .queries = 1, .keys = 2, .pe_len = told, .device = model.device()};
    span.positions = at::zeros({2}, at::TensorOptions(at::kLong).device(model.device()));
    span.positions[1].fill_(distance);
    encodings::State state = encodings::begin_pass(encoding, span);
    if (encodings::reader_of(encoding) != nullptr) {  // numbers that it counts in place of tokens, at this distance
      encodings::give_numbers(state, at::stack({span.positions, span.positions}, -1).unsqueeze(0));
    }
    encodings::LayerContext context = encodings::layer_context(encoding, state, layer);
    encodings::Heads heads;
    heads.q = query;
    heads.k = at::cat({key, key}, 2);  // the second row is the query's own key, which is never read
    heads.v = heads.k;
    heads.scale = scale;
    encodings::AttentionMatrices matrices;
    encodings::AttendOptions options;
    options.matrices = &matrices;
    encodings::attend(encoding, context, heads, options);
    return matrices.logits.select(2, 0).select(2, 0).to(at::kDouble);
  }

  std::int64_t pairs_ = 1000;
  double reach_ = 4;
  std::int64_t sequences_ = 64;
};

}  // namespace

TaskEntry logit_drift_task() {
  return {.name = "logit_drift",
          .summary = "Probe: the attention logit of fixed pairs of contents against their distance.",
          .tables = {"probe_logit"},
          .make = make_task<LogitDrift>};
}

}  // namespace pe::evaluation
