// Frequency microscope of rotary models: how large q and k are in each pair, and a pair's share of the logits, also by
// distance. It also lists pairs that reach angles at the tested lengths that training has not seen.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <map>
#include <numbers>

#include "encodings/attention/attend.h"
#include "evaluation/items.h"
#include "evaluation/probes/probe_texts.h"
#include "evaluation/probes/rotated_angles.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using encodings::RotatedPairs;
using support::cat;

/// Causal pairs of rows (i, j) whose distance is in [begin, end).
struct Octave {
  std::int64_t begin = 0, end = 0;
  double weight = 0;  ///< causal pairs of a text that it represents
  at::Tensor queries, keys;
};

at::Tensor index_of(const std::vector<std::int64_t>& values) {
  at::Tensor made = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), made.mutable_data_ptr<std::int64_t>());
  return made;
}

/// Distance 0, then octaves; `most` pairs of each, the same for every text and model.
std::vector<Octave> octaves(std::int64_t length, std::int64_t most, at::Device device) {
  std::vector<Octave> made;
  for (std::int64_t begin = 0; begin < length; begin = begin == 0 ? 1 : 2 * begin) {
    Octave octave{begin, begin == 0 ? 1 : std::min(2 * begin, length), 0, {}, {}};
    for (std::int64_t d = octave.begin; d < octave.end; ++d) octave.weight += static_cast<double>(length - d);
    support::Xoshiro random(probe_key("frequencies", length, begin));
    std::vector<std::int64_t> queries, keys;
    for (std::int64_t n = 0; n < most; ++n) {  // a causal pair, all alike likely: the nth of those listed by distance
      auto at = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(octave.weight)));
      std::int64_t d = octave.begin;
      while (at >= length - d) at -= length - d++;
      keys.push_back(at);
      queries.push_back(at + d);
    }
    octave.queries = index_of(queries).to(device);
    octave.keys = index_of(keys).to(device);
    made.push_back(std::move(octave));
  }
  return made;
}

encodings::Span span_of(std::int64_t length) {
  encodings::Span span = encodings::Span::whole(1, length);
  span.pe_len = length;
  return span;
}

class Frequencies final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("sequences", sequences_, "Held-out texts that are read.", {.min = 1, .max = 100000, .neutral = Json(64)});
    v.field("pairs", pairs_, "Pairs of tokens in each octave of distance whose logits are taken apart, in each text.",
            {.min = 1, .max = 1 << 20, .neutral = Json(256)});
  }

  void run(TaskContext& context) const override {
    const model::LanguageModel& model = probed_model(context);
    const std::string corpus = context.documents.split();
    const auto missing = [&](std::int64_t length, const char* why) {
      context.results.add_row(schema::ProbeFrequency{.corpus = corpus, .length = length, .status = why});
    };
    const ProbeLengths lengths = probe_lengths(context, context.lengths, sequences_,
                                               [&](std::int64_t length, const char* why) { missing(length, why); });
    bool any = false;
    for (std::int64_t layer = 0; layer < model.config().layers; ++layer) {
      any = any || model.encoding().rotated_pairs(static_cast<int>(layer), span_of(model.config().length)).has_value();
    }
    for (const std::int64_t length : lengths.live) {
      if (!any) {
        missing(length, status::kEncoding);
        continue;
      }
      context.results.item(cat("frequencies/", length),
                           [&] { return at_length(context, model, lengths.longest, length); });
    }
    // Where training has set positions, its angles do not follow from its length.
    if (any && !sets_positions(model, /*training=*/true)) context.results.add(angles(context, model));
  }

 private:
  /// Sums over texts of one layer.
  struct Sums {
    RotatedPairs rotated;
    std::vector<at::Tensor> q;  // ranges of rows of the current batch
    at::Tensor q_norm, k_norm;  // [H, pairs]
    at::Tensor shares;          // [octaves, H, pairs + 1]: mean |part of the logit|; last: of unrotated channels
  };

  /// Shares of the pairs of one layer, by distance.
  static void add_distances(const std::string& corpus, std::int64_t length, std::int64_t layer,
                            const std::vector<Octave>& all, const Sums& own, schema::Rows& rows) {
    const std::int64_t pairs = own.q_norm.size(1);
    for (std::size_t o = 0; o < all.size(); ++o) {
      const at::Tensor by_pair = own.shares[static_cast<std::int64_t>(o)].sum(0);  // over heads
      const double total = by_pair.sum().item<double>();
      for (std::int64_t pair = 0; pair < pairs; ++pair) {
        rows.add(schema::ProbeFrequencyDistance{.corpus = corpus,
                                                .length = length,
                                                .layer = layer,
                                                .pair = pair,
                                                .distance_lo = all[o].begin,
                                                .distance_hi = all[o].end,
                                                .logit_share = by_pair[pair].item<double>() / total});
      }
    }
  }

  schema::Rows at_length(TaskContext& context, const model::LanguageModel& model, std::int64_t longest,
                         std::int64_t length) const {
    const std::int64_t heads = model.config().heads;
    const std::vector<Octave> all = octaves(length, pairs_, model.device());
    std::map<std::int64_t, Sums> layers;
    for (std::int64_t layer = 0; layer < model.config().layers; ++layer) {
      auto rotated = model.encoding().rotated_pairs(static_cast<int>(layer), span_of(length));
      if (!rotated) continue;
      const auto n = static_cast<std::int64_t>(rotated->pairs());
      layers[layer] = {std::move(*rotated),
                       {},
                       at::zeros({heads, n}, at::kDouble),
                       at::zeros({heads, n}, at::kDouble),
                       at::zeros({static_cast<std::int64_t>(all.size()), heads, n + 1}, at::kDouble)};
    }
    model::Hooks hooks;
    hooks.rows = [&](std::int64_t layer, const encodings::AttentionRows& seen) {
      const auto found = layers.find(layer);
      if (found == layers.end()) return;
      found->second.q.push_back(seen.rows.q);
      if (seen.rows.end < length) return;
      take_apart(found->second, all, at::cat(found->second.q, 2), seen.rows.k, seen.rows.scale);
      found->second.q.clear();
    };
    const auto texts = probe_texts(context.documents, longest, length, sequences_, context.text.bos());
    in_batches(model, texts, context.settings.batch_tokens,
               [&](std::int64_t first, const at::Tensor& ids) { forward_with_hooks(model, ids, first, hooks); });

    schema::Rows rows;
    const std::string corpus = context.documents.split();
    const auto tokens = static_cast<double>(static_cast<std::int64_t>(texts.size()) * length);
    for (std::int64_t layer = 0; layer < model.config().layers; ++layer) {
      const auto found = layers.find(layer);
      if (found == layers.end()) {
        rows.add(
            schema::ProbeFrequency{.corpus = corpus, .length = length, .layer = layer, .status = status::kEncoding});
        continue;
      }
      const Sums& own = found->second;
      const std::int64_t pairs = own.q_norm.size(1);
      // Octaves are weighted by their numbers of causal pairs.
      at::Tensor whole = at::zeros({heads, pairs + 1}, at::kDouble);
      for (std::size_t o = 0; o < all.size(); ++o) whole.add_(own.shares[static_cast<std::int64_t>(o)], all[o].weight);
      const at::Tensor share = whole / whole.sum(-1, /*keepdim=*/true);
      for (std::int64_t head = 0; head < heads; ++head) {
        const auto group = static_cast<std::size_t>(head) * own.rotated.groups() / static_cast<std::size_t>(heads);
        for (std::int64_t pair = 0; pair <= pairs; ++pair) {
          schema::ProbeFrequency row{
              .corpus = corpus, .length = length, .layer = layer, .head = head, .status = status::kOk};
          row.logit_share = share[head][pair].item<double>();
          if (pair == pairs) {  // channels that are not rotated
            if (row.logit_share > 0) rows.add(std::move(row));
            continue;
          }
          row.pair = pair;
          row.theta = own.rotated.theta[group * own.rotated.pairs() + static_cast<std::size_t>(pair)];
          if (row.theta != 0) row.wavelength = 2 * std::numbers::pi / std::abs(row.theta);
          row.q_norm = own.q_norm[head][pair].item<double>() / tokens;
          row.k_norm = own.k_norm[head][pair].item<double>() / tokens;
          rows.add(std::move(row));
        }
      }
      add_distances(corpus, length, layer, all, own, rows);
    }
    return rows;
  }

  /// @param q [B,H,T,w], k [B,G,T,w], both after S2.
  static void take_apart(Sums& sums, const std::vector<Octave>& all, const at::Tensor& q, const at::Tensor& k,
                         double scale) {
    const at::Tensor first = index_of(sums.rotated.first).to(q.device()),
                     second = index_of(sums.rotated.second).to(q.device());
    const std::int64_t heads = q.size(1);
    const auto norms = [&](const at::Tensor& of) {  // [B,H,T,w] → [H, pairs], summed over texts and tokens
      const at::Tensor wide = of.to(at::kDouble), a = wide.index_select(3, first), b = wide.index_select(3, second);
      return (a * a + b * b).sqrt().sum(at::IntArrayRef{0, 2}).to(at::kCPU);
    };
    const at::Tensor keys = k.size(1) == heads ? k : k.repeat_interleave(heads / k.size(1), 1);
    sums.q_norm.add_(norms(q));
    sums.k_norm.add_(norms(keys));
    for (std::size_t o = 0; o < all.size(); ++o) {
      const at::Tensor product =
          q.index_select(2, all[o].queries).to(at::kDouble) * keys.index_select(2, all[o].keys).to(at::kDouble) * scale;
      const at::Tensor rotated = product.index_select(3, first) + product.index_select(3, second);  // [B,H,n,pairs]
      const at::Tensor rest = product.sum(3) - rotated.sum(3);
      const at::Tensor parts = at::cat({rotated.abs().mean(2), rest.abs().mean(2).unsqueeze(2)}, 2).sum(0).to(at::kCPU);
      sums.shares[static_cast<std::int64_t>(o)].add_(parts);
    }
    // Rounding leaves a little where every channel belongs to a pair.
    if (2 * sums.rotated.first.size() == static_cast<std::size_t>(q.size(3))) sums.shares.select(2, -1).zero_();
  }

  static schema::Rows angles(TaskContext& context, const model::LanguageModel& model) {
    schema::Rows rows;
    const std::int64_t trained = model.config().length;
    for (std::int64_t layer = 0; layer < model.config().layers; ++layer) {
      const auto before = model.encoding().rotated_pairs(static_cast<int>(layer), span_of(trained));
      if (!before) continue;
      for (const std::int64_t length : context.lengths) {
        const auto now = model.encoding().rotated_pairs(static_cast<int>(layer), span_of(length));
        if (!now || now->theta.size() != before->theta.size()) continue;
        for (std::size_t i = 0; i < now->theta.size(); ++i) {
          const PairAngles of = pair_angles(before->theta[i], trained, now->theta[i], length);
          rows.add(schema::ProbeAngle{.length = length,
                                      .layer = layer,
                                      .group = static_cast<std::int64_t>(i / now->pairs()),
                                      .pair = static_cast<std::int64_t>(i % now->pairs()),
                                      .theta_trained = before->theta[i],
                                      .theta = now->theta[i],
                                      .turns_trained = of.trained_turns,
                                      .turns = of.turns,
                                      .unseen = of.unseen});
        }
      }
    }
    return rows;
  }

  std::int64_t sequences_ = 64;
  std::int64_t pairs_ = 256;
};

}  // namespace

TaskEntry frequencies_task() {
  return {.name = "frequencies",
          .summary = "Probe: what each rotary pair carries, by layer and distance, and which turn into unseen angles.",
          .tables = {"probe_frequency", "probe_frequency_distance", "probe_angle"},
          .make = make_task<Frequencies>};
}

}  // namespace pe::evaluation
