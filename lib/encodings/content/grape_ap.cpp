// GRAPE-AP: every token between a key and a query adds an edge to the path between them, and the query says what each
// edge costs.
#include "encodings/bias/slopes.h"
#include "encodings/registry.h"
#include "encodings/rotary/rotary.h"

namespace pe::encodings {
namespace {

struct GrapeApOptions {
  std::int64_t hidden = 8;
  void describe(support::FieldVisitor& v) {
    v.field("hidden", hidden, "Width of a token's description of its edge.", {.min = 2, .max = 1024});
    v.check(hidden % 2 == 0, "hidden is even");
  }
};

class GrapeAp : public PositionalEncoding {
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
  std::int64_t width_;
  std::vector<Tensor> weight_;  // [width·H, d_m] for each layer
  Tensor slopes_;
};

}  // namespace

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
