// Transformer-XL: the query, and a trained vector in its place, meet the key's content and its distance apart.
#include "encodings/content/distance_vectors.h"
#include "encodings/registry.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

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
    const std::int64_t shared = shape_.query_heads / shape_.key_value_heads;
    Tensor k = heads.k.to(type);
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
