// Wall attention: every channel of every token holds a gate, and a channel's share of q·k is multiplied by the gates
// between key and query.
#include "encodings/attention/head_vectors.h"
#include "encodings/content/invariant_alone.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

// Rows that are compared with each other channel by channel; all keys before them share one anchor.
constexpr std::int64_t kWallRows = 16;

class Wall : public InvariantAlone, public HoldsHeadVectors {
 public:
  explicit Wall(const Shape& shape) : InvariantAlone(shape) {
    const std::int64_t channels = shape.query_heads * shape.head_width;
    for (int layer = 0; layer < shape.layers; ++layer) {
      weight_.push_back(add_normal("wall", "weight", {channels, shape.width}, 0, 0.02, true, layer));
      bias_.push_back(add_constant("wall", "bias", {channels}, 8, false, layer));
    }
  }

  Traits traits(const Span& span) const override { return {.own_logits = true, .needs_row_constants = true}; }

  /// P, the running sums of the gates' logarithms: [B,H,S,d_h]
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    if (!context.x.defined()) throw ShapeError("encoding 'wall' reads the tokens x of a layer, and none were given");
    const Tensor& weight = weight_.at(context.layer);
    const Tensor gates = at::matmul(context.x.to(weight.scalar_type()), weight.t()) + bias_.at(context.layer);
    return {at::log_sigmoid(gates).cumsum(1).unflatten(-1, {shape_.query_heads, shape_.head_width}).transpose(1, 2)};
  }

  // Σ_n q_in k_jn exp(P_in − P_jn). An exponent is at most 0 when it is split at an anchor between j and i. Nothing
  // overflows then; pairs too near for an anchor between them are computed one by one.
  Tensor logits(const Rows& rows) override {
    const Tensor& p = rows.inputs.at(0);
    const at::ScalarType type = p.scalar_type();
    const std::int64_t offset = rows.context.span.keys - rows.context.span.queries;
    const std::int64_t heads = rows.q.size(1), shared = heads / rows.k.size(1);
    const Tensor q = rows.q.to(type) * rows.scale;
    const Tensor k = (shared == 1 ? rows.k : rows.k.repeat_interleave(shared, 1)).to(type);
    std::vector<Tensor> parts;
    for (std::int64_t begin = 0; begin < rows.count(); begin += kWallRows) {
      const std::int64_t n = std::min(kWallRows, rows.count() - begin), first = offset + rows.begin + begin;
      const Tensor own_q = q.narrow(2, begin, n), own_p = p.narrow(2, first, n);
      const Tensor anchor = p.narrow(2, first, 1);
      std::vector<Tensor> columns;
      if (first > 0) {
        const Tensor far = k.narrow(2, 0, first) * at::exp(anchor - p.narrow(2, 0, first));
        columns.push_back(at::matmul(own_q * at::exp(own_p - anchor), far.transpose(-1, -2)));
      }
      const Tensor decay = at::exp((own_p.unsqueeze(3) - own_p.unsqueeze(2)).clamp_max(0));  // [B,H,n,n,d_h]
      const Tensor near = (own_q.unsqueeze(3) * k.narrow(2, first, n).unsqueeze(2) * decay).sum(-1);
      columns.push_back(near);
      const std::int64_t rest = rows.keys - first - n;
      if (rest > 0) columns.push_back(at::zeros({near.size(0), heads, n, rest}, near.options().requires_grad(false)));
      parts.push_back(columns.size() == 1 ? columns[0] : at::cat(columns, -1));
    }
    return parts.size() == 1 ? parts[0] : at::cat(parts, 2);
  }

 private:
  std::vector<Tensor> weight_, bias_;  // [H·d_h, d_m], [H·d_h] for each layer
};

}  // namespace

EncodingEntry wall_entry() {
  return without_options<Wall>(
      {.name = "wall",
       .summary = "Multiplies the share of each channel in q·k by the gates of the tokens between key and query.",
       .reference = "Tilde Research 2026, released code",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "product of q and k",
       .parameters = "layers*heads*head_width*(width + 1)",
       .formula = "P_i = Σ_{l ≤ i} logσ(W x_l + b), b at first 8\n"
                  "a_ij = Σ_n q_in·k_jn·exp(P_in − P_jn)/√d_h",
       .known_for = "A forgetting gate for each channel instead of each head; it is recent and has no independent "
                    "evaluation.",
       .errata = {"Equal gates multiply the logit and keep its sign; in FoX they add to it.",
                  "Computed as (q·e^P)(k·e^−P) it overflows; here exponents are split at anchors between key and "
                  "query."}});
}

}  // namespace pe::encodings
