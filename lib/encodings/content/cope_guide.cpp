// A guide's CoPE, which differs from the paper's: gates read tokens alone and are counted from the start of the text. A
// key adds an interpolated row of a table for its count. The bias is absolute and the same for all queries, and so as
// cheap as extra channels of q and k.
#include "encodings/content/cumulative.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

struct CopeGuideOptions {
  std::int64_t positions = 2048;
  void describe(support::FieldVisitor& v) {
    v.field("positions", positions, "Rows of the table; larger counts share the last.", {.min = 2});
  }
};

class CopeGuide : public PositionalEncoding {
 public:
  CopeGuide(const CopeGuideOptions& options, const Shape& shape) : PositionalEncoding(shape), rows_(options.positions) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      const std::int64_t heads = shape.query_heads, width = shape.head_width;
      layers_.push_back({add_normal("cope_guide", "gate_weight", {heads, shape.width}, 0, 0.02, true, layer),
                         add_constant("cope_guide", "gate_bias", {heads}, 0, false, layer),
                         add_normal("cope_guide", "table", {rows_, width}, 0, 0.02, false, layer),
                         add_normal("cope_guide", "query", {width, width}, 0, 0.02, true, layer)});
    }
  }

  Facts facts() const override {
    return {.shift_invariant = ShiftInvariance::kNever, .learned = true, .content_dependent = true};
  }
  Traits traits(const Span& span) const override {
    return {.bias = BiasKind::kChannels, .bias_needs_grad = true, .bias_depends_on_batch = true, .needs_raw = true};
  }

  Channels channels(LayerContext& context, const Heads& heads) override {
    return {.query = reader(context, heads), .key = entries(context), .query_pieces = 1, .key_pieces = 1};
  }
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    return {reader(context, heads), entries(context)};
  }
  Tensor bias(const Rows& rows) override {
    const Tensor q = rows.inputs.at(0).narrow(2, rows.begin, rows.count()),
                 k = rows.inputs.at(1).narrow(2, 0, rows.keys);
    return at::matmul(q, k.transpose(-1, -2));
  }

 private:
  struct GuideCope {
    Tensor gate_weight, gate_bias, table, query;
  };

  /// W·q before any rotation, over √d_h: [B,H,T,d_h]
  Tensor reader(const LayerContext& context, const Heads& heads) const {
    const Tensor& w = layers_.at(context.layer).query;
    return at::matmul(heads.raw_q.to(w.scalar_type()), w.t()) / std::sqrt(static_cast<double>(shape_.head_width));
  }

  /// The table at the count of each key: [B,H,S,d_h]
  Tensor entries(const LayerContext& context) const {
    const GuideCope& layer = layers_.at(context.layer);
    const Tensor gates = at::sigmoid(token_scores(context, layer.gate_weight, layer.gate_bias));  // [B,H,S]
    Tensor counts = gates.cumsum(-1);
    if (context.span.doc_start.defined()) {  // each document counts from its own start
      const Tensor start = context.span.doc_start.expand({context.span.batch, context.span.keys}).unsqueeze(1);
      counts = counts - (counts - gates).gather(-1, start.expand(counts.sizes()));
    }
    const Tensor p = counts.clamp_max(static_cast<double>(rows_) - 1.001);
    const Tensor floor = p.detach().floor();
    const Tensor weight = (p - floor).unsqueeze(-1);
    const Tensor low = floor.to(at::kLong).flatten();
    const auto row = [&](const Tensor& index) {
      return layer.table.index_select(0, index).view({p.size(0), p.size(1), p.size(2), -1});
    };
    return weight * row(low + 1) + (1 - weight) * row(low);
  }

  std::int64_t rows_;
  std::vector<GuideCope> layers_;
};

}  // namespace

EncodingEntry cope_guide_entry() {
  return with_options<CopeGuide, CopeGuideOptions>(
      {.name = "cope_guide",
       .summary = "Variant of CoPE in a guide: counts gates of tokens from the start of the text.",
       .reference = "a guide to positional encodings; deviates from Golovneva et al. 2024, arXiv:2405.18719",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "layers*(heads*(width + 1) + positions*head_width + head_width*head_width)",
       .formula = "g_t = σ(w_h·x_t + b_h), p_j = min(Σ_{t ≤ j} g_t, positions − 1.001)\n"
                  "logit(i,j) += (W q_i)·e(p_j)/√d_h, e a trained table, read between its rows",
       .known_for = "A simplification of CoPE that circulates in a guide; here to measure the difference.",
       .errata = {"It is not CoPE: counts begin at the start of the text and are equal for all queries, a soft "
                  "absolute position of keys."}});
}

}  // namespace pe::encodings
