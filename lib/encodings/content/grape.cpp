// GRAPE-A and GRAPE-AP: decays of the logits, read off the content.
#include "encodings/attention/fused_bias.h"
#include "encodings/bias/slopes.h"
#include "encodings/registry.h"
#include "encodings/rotary/rotary.h"

namespace pe::encodings {
namespace {

enum class GrapeGate { kKey, kQuery, kBoth };

struct GrapeAOptions {
  GrapeGate form = GrapeGate::kBoth;
  void describe(support::FieldVisitor& v) {
    v.choice("form", form, {{"k", GrapeGate::kKey}, {"q", GrapeGate::kQuery}, {"qk", GrapeGate::kBoth}},
             "Input of the gate on the slope: the key, the query, or the sum of both.");
  }
};

/// GRAPE-A: ALiBi whose slope is gated by the key, the query, or both.
class GrapeA : public PositionalEncoding, public FusesBias {
 public:
  GrapeA(const GrapeAOptions& options, const Shape& shape) : PositionalEncoding(shape), form_(options.form) {
    const double std = 1 / std::sqrt(static_cast<double>(shape.head_width));
    const std::vector<std::int64_t> sizes{shape.query_heads, shape.head_width};
    for (int layer = 0; layer < shape.layers; ++layer) {
      omega_.push_back(add_constant("grape_a", "omega", {shape.query_heads}, std::log(std::expm1(1.0)), false, layer));
      if (form_ != GrapeGate::kQuery) u_.push_back(add_normal("grape_a", "u", sizes, 0, std, false, layer));
      if (form_ != GrapeGate::kKey) v_.push_back(add_normal("grape_a", "v", sizes, 0, std, false, layer));
    }
    slopes_ = at::tensor(alibi_slopes(shape.query_heads), at::TensorOptions(at::kDouble))
                  .to(at::TensorOptions(shape.dtype).device(shape.device));
  }

  Facts facts() const override { return {.learned = true, .content_dependent = true}; }
  Traits traits(const Span& span) const override {
    return {.bias = form_ == GrapeGate::kQuery ? BiasKind::kChannels : BiasKind::kPairwise,
            .bias_needs_grad = true,
            .bias_depends_on_batch = true,
            .needs_raw = true,
            .channels_cancel = true};
  }

  // −(i − j)·ω·G_i is ω·G_i·j up to a constant of the row.
  Channels channels(LayerContext& context, const Heads& heads) override {
    const Tensor gate = query_gate(context, heads);
    const Tensor place = at::arange(context.span.keys, gate.options().requires_grad(false)).view({1, 1, -1, 1});
    return {.query = gate, .key = place, .query_pieces = 3, .key_pieces = context.span.keys <= 65536 ? 2 : 3};
  }

  FusedKind fused_kind(const Span& span) const override { return FusedKind::kGated; }
  FusedBias fused_bias(LayerContext& context, const Heads& heads) override {
    const at::TensorOptions options = omega_.at(context.layer).options().requires_grad(false);
    GatedDistance all{.places = at::arange(context.span.keys, options).view({1, 1, -1})};
    if (form_ != GrapeGate::kQuery) all.key_gates = key_gate(context, heads).squeeze(-2);
    all.query_gates = form_ != GrapeGate::kKey ? query_gate(context, heads).squeeze(-1)
                                               : at::zeros({1, 1, context.span.queries}, options);
    return {.gated = all};
  }

  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    std::vector<Tensor> gates;
    if (form_ != GrapeGate::kQuery) gates.push_back(key_gate(context, heads));
    if (form_ != GrapeGate::kKey) gates.push_back(query_gate(context, heads));
    return gates;
  }

  Tensor bias(const Rows& rows) override {
    Tensor gate;
    if (form_ != GrapeGate::kQuery) gate = rows.inputs.front().narrow(-1, 0, rows.keys);
    if (form_ != GrapeGate::kKey) {
      const Tensor own = rows.inputs.back().narrow(2, rows.begin, rows.count());
      gate = gate.defined() ? gate + own : own;
    }
    return gate * -rows.distances().to(gate.scalar_type());
  }

 private:
  /// ω_h, [H,1]: a slope of ALiBi times a learned factor, at first 1.
  Tensor omega(int layer) const { return (at::softplus(omega_.at(layer)) * slopes_).unsqueeze(-1); }

  /// softplus of the cosine-like product of a head's direction with each token, [B,H,tokens,1].
  Tensor gate(const Tensor& tokens, const Tensor& directions) const {
    const Tensor unit = directions / directions.norm(2, {1}, true).clamp_min(1e-12);
    const Tensor product = at::matmul(tokens.to(unit.scalar_type()), unit.unsqueeze(-1));
    return at::softplus(product / std::sqrt(static_cast<double>(shape_.head_width)));
  }

  Tensor key_gate(const LayerContext& context, const Heads& heads) const {
    const Tensor& k = heads.raw_k;
    const std::int64_t shared = shape_.query_heads / k.size(1);
    const Tensor repeated = shared == 1 ? k : k.repeat_interleave(shared, 1);
    return omega(context.layer).unsqueeze(-1) * gate(repeated, u_.at(context.layer)).transpose(-1, -2);  // [B,H,1,S]
  }
  Tensor query_gate(const LayerContext& context, const Heads& heads) const {
    return omega(context.layer).unsqueeze(-1) * gate(heads.raw_q, v_.at(context.layer));  // [B,H,T,1]
  }

  GrapeGate form_;
  std::vector<Tensor> omega_, u_, v_;  // [H], [H,d_h], [H,d_h] for each layer
  Tensor slopes_;
};

struct GrapeApOptions {
  std::int64_t hidden = 8;
  void describe(support::FieldVisitor& v) {
    v.field("hidden", hidden, "Width of a token's description of its edge.", {.min = 2, .max = 1024});
    v.check(hidden % 2 == 0, "hidden is even");
  }
};

/// GRAPE-AP: every token between a key and a query adds an edge to the path between them, and the query sets the cost
/// of each edge.
class GrapeAp : public PositionalEncoding, public FusesBias {
 public:
  GrapeAp(const GrapeApOptions& options, const Shape& shape) : PositionalEncoding(shape), width_(options.hidden) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      weight_.push_back(
          add_normal("grape_ap", "weight", {width_ * shape.query_heads, shape.width}, 0, 0.02, true, layer));
    }
    slopes_ = at::tensor(alibi_slopes(shape.query_heads), at::TensorOptions(at::kDouble))
                  .to(at::TensorOptions(shape.dtype).device(shape.device));
  }

  // The key's side is rotated by its position and the query's is not, as in the released code.
  Facts facts() const override {
    return {.shift_invariant = ShiftInvariance::kNever, .learned = true, .content_dependent = true};
  }
  Traits traits(const Span& span) const override {
    return {.bias = BiasKind::kPairwise, .bias_needs_grad = true, .bias_depends_on_batch = true, .live_logits = 8};
  }

  FusedKind fused_kind(const Span& span) const override {
    return width_ == kFused ? FusedKind::kEdges : FusedKind::kNone;
  }
  FusedBias fused_bias(LayerContext& context, const Heads& heads) override {
    const std::vector<Tensor> sides = row_inputs(context, heads);
    return {.edges = {sides[0], sides[1], slopes_}};
  }

  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    if (!context.x.defined())
      throw ShapeError("encoding 'grape_ap' reads the tokens x of a layer, and none were given");
    const Tensor& weight = weight_.at(context.layer);
    const Tensor p = at::matmul(context.x.to(weight.scalar_type()), weight.t())
                         .unflatten(-1, {shape_.query_heads, width_})
                         .transpose(1, 2);  // [B,H,S,width]
    const double epsilon = weight.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                               : std::numeric_limits<float>::epsilon();
    const Tensor normed = p * at::rsqrt((p * p).mean({-1}, true) + epsilon);
    // Every pair rotates with one radian per position: x cos + y sin, −x sin + y cos.
    const Tensor angle = at::stack(std::vector<Tensor>(width_ / 2, context.positions.to(at::kDouble)), -1);
    const Tensor cos = at::cos(angle).to(p.scalar_type()), sin = -at::sin(angle).to(p.scalar_type());
    const Tensor rotated = rotate(normed, cos, sin, PairLayout::kHalf);
    const Span& span = context.span;
    return {p.narrow(2, span.keys - span.queries, span.queries) / static_cast<double>(width_), rotated};
  }

  // e_il = slope·logσ(⟨p_i, R^l p̂_l⟩/hidden), and b_ij sums it over l = j + 1 .. i.
  Tensor bias(const Rows& rows) override {
    const Tensor q = rows.inputs.at(0).narrow(2, rows.begin, rows.count()),
                 k = rows.inputs.at(1).narrow(2, 0, rows.keys);
    const Tensor edges = at::log_sigmoid(at::matmul(q, k.transpose(-1, -2))) * slopes_.view({1, -1, 1, 1});
    const Tensor sums = edges.masked_fill(rows.visible.logical_not(), 0.0).cumsum(-1);
    return sums.select(-1, rows.keys - 1).unsqueeze(-1) - sums;
  }

 private:
  static constexpr std::int64_t kFused = 8;

  std::int64_t width_;
  std::vector<Tensor> weight_;  // [width·H, d_m] for each layer
  Tensor slopes_;
};

}  // namespace

EncodingEntry grape_a_entry() {
  return with_options<GrapeA, GrapeAOptions>(
      {.name = "grape_a",
       .summary = "Adds the penalty of ALiBi with gates on the slopes that depend on keys, queries or both.",
       .reference = "Zhang et al. 2025, arXiv:2512.07805",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "layers*heads*(1 + 2*head_width)",
       .formula = "ω_h = softplus(omega_h)·m_h, m_h ALiBi's slope\n"
                  "G = softplus(û_h·k_j/√d_h) (k), softplus(v̂_h·q_i/√d_h) (q), or their sum (qk)\n"
                  "logit(i,j) += −(i − j)·ω_h·G",
       .known_for = "ALiBi with slopes that depend on the content; with G = 1 it is ALiBi. Its paper reports about one "
                    "point more than rotations on seven tasks.",
       .errata = {"Gates read q and k before any rotation, so they stay free of position."}});
}

EncodingEntry grape_ap_entry() {
  return with_options<GrapeAp, GrapeApOptions>(
      {.name = "grape_ap",
       .summary = "Adds the costs of the tokens between key and query; the query decides each cost.",
       .reference = "Zhang et al. 2025, arXiv:2512.07805",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "layers*heads*hidden*width",
       .formula = "p = W x, p̂ = p/rms(p), R turns every pair by 1 radian a position\n"
                  "e_il = m_h·logσ(⟨p_i, R^l p̂_l⟩/hidden), logit(i,j) += Σ_{l = j+1 .. i} e_il",
       .known_for = "The best additive form in its paper. It needs a bias for each pair of query and key.",
       .errata = {"As in the released code, the query side is neither rotated nor normalised, so an edge depends on "
                  "its absolute position. The paper normalises it."}});
}

}  // namespace pe::encodings
