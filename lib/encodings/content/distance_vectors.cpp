// Base of shaw and transformer_xl: queries, after S2, are multiplied by trained vectors of the distance. A rotated
// query gives another product at every position, so with a rotation they are not shift invariant.
#include "encodings/attention/head_vectors.h"
#include "encodings/attention/positional_encoding.h"
#include "encodings/attention/weight_mix.h"
#include "encodings/content/invariant_alone.h"
#include "encodings/content/ordered_gather.h"
#include "encodings/registry.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

class DistanceVectors : public InvariantAlone, public HoldsHeadVectors {
 public:
  using InvariantAlone::InvariantAlone;
};

struct ShawOptions {
  std::int64_t max_distance = 16;
  bool values = true;
  bool per_head = false;
  void describe(support::FieldVisitor& v) {
    v.field("max_distance", max_distance, "Distances of at least this share one vector.",
            {.unit = "tokens", .min = 0, .max = 65536});
    v.field("values", values, "Add vectors to values too.");
    v.field("per_head", per_head, "Separate tables for each key/value head.");
  }
};

/// Shaw et al.: a trained vector for each distance joins the key, and another the value, up to a distance beyond which
/// all are alike.
class Shaw : public DistanceVectors, public MixesByWeights {
 public:
  Shaw(const ShawOptions& options, const Shape& shape) : DistanceVectors(shape), options_(options) {
    std::vector<std::int64_t> sizes{options.max_distance + 1, shape.head_width};
    if (options.per_head) sizes.insert(sizes.begin(), shape.key_value_heads);
    for (int layer = 0; layer < shape.layers; ++layer) {
      keys_.push_back(add_normal("shaw", "key_table", sizes, 0, 0.02, false, layer));
      if (options.values) values_.push_back(add_normal("shaw", "value_table", sizes, 0, 0.02, false, layer));
    }
  }

  // The vectors of distances are not rotated, so a query rotated by another member shows its position in the products.
  Traits traits(const Span& span) const override {
    return {.bias = BiasKind::kPairwise, .bias_needs_grad = true, .bias_depends_on_batch = true};
  }

  /// scale·q_i·a_c for each class of distances, [B,H,T,K+1]; then the table of values.
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    const Tensor& table = keys_.at(context.layer);
    const Tensor scores = at::matmul(heads.q.to(table.scalar_type()) * heads.scale, for_heads(table).transpose(-1, -2));
    if (!options_.values) return {scores};
    return {scores, values_.at(context.layer)};
  }

  Tensor bias(const Rows& rows) override {
    const Tensor scores = rows.inputs.at(0).narrow(2, rows.begin, rows.count());
    return gather_in_order(scores, classes(rows, scores));
  }

  bool mixes() const override { return options_.values; }
  // Σ_j w_ij b_c: weights are summed by class first.
  Tensor mix(const Rows& rows, const Tensor& weights) override {
    const Tensor sums = rows.context.contiguous ? band(rows, weights)
                                                : at::zeros_like(weights.narrow(-1, 0, 1))
                                                      .expand({-1, -1, -1, options_.max_distance + 1})
                                                      .scatter_add(-1, classes(rows, weights), weights);
    return at::matmul(sums, for_heads(rows.inputs.at(1)).to(weights.scalar_type()));
  }

 private:
  /// [1 or H, K+1, d_h]
  Tensor for_heads(const Tensor& table) const {
    if (table.dim() == 2) return table.unsqueeze(0);
    return table.repeat_interleave(shape_.query_heads / table.size(0), 0);
  }

  /// min(⌊p_i − p_j⌋, K), [B,H,rows,keys] as `like` has them.
  Tensor classes(const Rows& rows, const Tensor& like) const {
    Tensor c = rows.distances();
    if (c.is_floating_point()) c = c.floor().to(at::kLong);
    return c.clamp(0, options_.max_distance).expand({like.size(0), like.size(1), rows.count(), rows.keys});
  }

  /// Where positions run, a class below K is one key of each row, and the last has the rest.
  Tensor band(const Rows& rows, const Tensor& weights) const {
    const Tensor columns = rows.query_rows().unsqueeze(-1) -
                           at::arange(options_.max_distance, at::TensorOptions(at::kLong).device(weights.device()));
    const Tensor there = columns.ge(0);  // keys of another document have no weight
    const Tensor near = weights.gather(-1, columns.clamp_min(0).expand({weights.size(0), weights.size(1), -1, -1}))
                            .masked_fill(there.logical_not(), 0.0);
    return at::cat({near, weights.sum({-1}, true) - near.sum({-1}, true)}, -1);
  }

  ShawOptions options_;
  std::vector<Tensor> keys_, values_;  // a layer each, [K+1,d_h] or [G,K+1,d_h]
};

using support::cat;

struct TransformerXlOptions {
  std::int64_t clamp_length = 0;
  bool untie = false;
  void describe(support::FieldVisitor& v) {
    v.field("clamp_length", clamp_length, "Larger distances are clipped to this one; 0: no clipping.",
            {.unit = "tokens", .min = 0});
    v.field("untie", untie, "Separate vectors u and v for each layer, not one pair for the model.");
  }
};

/// Transformer-XL: the query, and a trained vector in its place, meet the key's content and its distance apart.
class TransformerXl : public DistanceVectors {
 public:
  TransformerXl(const TransformerXlOptions& options, const Shape& shape) : DistanceVectors(shape), options_(options) {
    if (shape.width % 2 != 0) {
      throw support::ConfigError(cat("encoding 'transformer_xl' needs sines and cosines side by side, and the width ",
                                     shape.width, " is odd"));
    }
    const std::vector<std::int64_t> sizes{shape.query_heads, shape.head_width};
    for (int layer = 0; layer < shape.layers; ++layer) {
      if (layer == 0 || options.untie) {
        const int of = options.untie ? layer : -1;
        u_.push_back(add_normal("transformer_xl", "u", sizes, 0, 0.02, false, of));
        v_.push_back(add_normal("transformer_xl", "v", sizes, 0, 0.02, false, of));
      }
      relative_.push_back(add_normal("transformer_xl", "relative", {shape.query_heads * shape.head_width, shape.width},
                                     0, 0.02, true, layer));
    }
  }

  // The vectors of distances are not rotated, so a query rotated by another member shows its position in the products.
  Traits traits(const Span& span) const override {
    return {.bias = BiasKind::kPairwise, .bias_needs_grad = true, .bias_depends_on_batch = true, .live_logits = 8};
  }

  /// scale·(q + v) [B,H,T,d_h], W_R R_d for each distance [H,n,d_h], scale·u·k [B,H,1,S].
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    const std::size_t of = options_.untie ? static_cast<std::size_t>(context.layer) : 0;
    const Tensor &u = u_.at(of), &v = v_.at(of);
    const at::ScalarType type = u.scalar_type();
    const Tensor by_distance =
        at::matmul(waves(reach(context), type, context.span.device), relative_.at(context.layer).t())
            .unflatten(-1, {shape_.query_heads, shape_.head_width})
            .transpose(0, 1);
    Tensor k = heads.k.to(type);
    const std::int64_t shared = shape_.query_heads / k.size(1);  // another member may have parted shared keys
    if (shared > 1) k = k.repeat_interleave(shared, 1);
    return {(heads.q.to(type) + v.unsqueeze(1)) * heads.scale, by_distance,
            at::matmul(k, u.unsqueeze(-1)).transpose(-1, -2) * heads.scale};
  }

  Tensor bias(const Rows& rows) override {
    const Tensor q = rows.inputs.at(0).narrow(2, rows.begin, rows.count());
    const Tensor scores = at::matmul(q, rows.inputs.at(1).transpose(-1, -2));  // [B,H,rows,n]
    const Tensor distances = rows.distances().clamp(0, scores.size(-1) - 1);
    const Tensor picked =
        scores.gather(-1, distances.expand({scores.size(0), scores.size(1), rows.count(), rows.keys}));
    return picked + rows.inputs.at(2).narrow(-1, 0, rows.keys);
  }

 private:
  /// Number n of distances 0 .. n − 1 that occur and are distinguished.
  std::int64_t reach(const LayerContext& context) const {
    const std::int64_t n = distances_in_reach(context);
    return options_.clamp_length > 0 ? std::min(n, options_.clamp_length + 1) : n;
  }

  /// R_d = (sin dω_m …, cos dω_m …), ω_m = 10000^(−2m/d_m): [n, d_m]
  Tensor waves(std::int64_t n, at::ScalarType type, at::Device device) const {
    const at::TensorOptions options = at::TensorOptions(at::kDouble).device(device);
    const Tensor rate =
        at::exp(at::arange(0, shape_.width, 2, options) * (-std::log(10000.0) / static_cast<double>(shape_.width)));
    const Tensor angle = at::arange(n, options).unsqueeze(-1) * rate;
    return at::cat({at::sin(angle), at::cos(angle)}, -1).to(type);
  }

  TransformerXlOptions options_;
  std::vector<Tensor> u_, v_, relative_;  // [H,d_h] of the model or a layer; [H·d_h,d_m] of a layer
};

}  // namespace

EncodingEntry shaw_entry() {
  return with_options<Shaw, ShawOptions>(
      {.name = "shaw",
       .aliases = {"relative_vectors"},
       .summary = "Adds a trained vector of the distance to each key and to each value.",
       .reference = "Shaw et al. 2018, arXiv:1803.02155",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits, values",
       .parameters = "layers*2*(max_distance + 1)*head_width",
       .formula = "c = min(⌊i − j⌋, max_distance)\n"
                  "logit(i,j) = q_i·(k_j + a_c)/√d_h, o_i = Σ_j w_ij (v_j + b_c)",
       .known_for = "The first relative encoding, still used by music transformers and speech models. It distinguishes "
                    "short distances exactly and long ones not at all.",
       .errata = {"The original's table has 2K + 1 rows; a decoder reaches K + 1 of them."}});
}

EncodingEntry transformer_xl_entry() {
  return with_options<TransformerXl, TransformerXlOptions>(
      {.name = "transformer_xl",
       .aliases = {"txl"},
       .summary = "Splits a logit into content and distance, each multiplied by the query and by a trained vector.",
       .reference = "Dai et al. 2019, arXiv:1901.02860",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "2*heads*head_width + layers*heads*head_width*width",
       .formula = "logit(i,j) = [(q_i + u)·k_j + (q_i + v)·W_R R_d]/√d_h, d = i − j\n"
                  "R_d = (sin dω_m …, cos dω_m …), ω_m = 10000^(−2m/d_m)",
       .known_for = "Relative sinusoids: the encoding of Transformer-XL and XLNet, and of many speech models.",
       .errata = {"The memory of earlier segments in the paper is not part of the encoding, and is omitted."}});
}

}  // namespace pe::encodings
