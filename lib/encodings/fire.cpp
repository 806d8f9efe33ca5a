// FIRE: a small network reads a distance that is normalised by the query's position, so that longer texts stay within
// what training saw.
#include "encodings/registry.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

constexpr std::int64_t kHidden = 32;
constexpr double kEpsilon = 1e-6;

struct FireOptions {
  std::int64_t initial_length = 512;
  void describe(support::FieldVisitor& v) {
    v.field("initial_length", initial_length,
            "Queries before it, times a learned factor that starts at 1, share one normaliser.",
            {.unit = "tokens", .min = 1});
  }
};

class Fire : public PositionalEncoding {
 public:
  Fire(const FireOptions& options, const Shape& shape) : PositionalEncoding(shape), options_(options) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      const double w2 = 1 / std::sqrt(static_cast<double>(kHidden));
      layers_.push_back({add_constant("fire", "c", {}, 0.1, false, layer),
                         add_constant("fire", "length_multiplier", {}, 1, false, layer),
                         add_uniform("fire", "w1", {kHidden, 1}, -1, 1, true, layer),
                         add_uniform("fire", "b1", {kHidden}, -1, 1, false, layer),
                         add_uniform("fire", "w2", {shape.query_heads, kHidden}, -w2, w2, true, layer),
                         add_uniform("fire", "b2", {shape.query_heads}, -w2, w2, false, layer)});
    }
    effective_length_ = options.initial_length;
  }

  Facts facts() const override {
    return {.shift_invariant = ShiftInvariance::kUntilEffectiveLength, .learned = true};
  }

  // While no query lies beyond the effective length, the normaliser is one number and the bias depends on distance.
  Traits traits(const Span& span) const override {
    const bool short_rows = span.first_position >= 0 && span.first_position + span.keys - 1 <= effective_length_;
    return {.bias = short_rows ? BiasKind::kToeplitz : BiasKind::kPairwise, .bias_needs_grad = true};
  }

  void begin(State& state) override {
    at::NoGradGuard no_grad;
    std::vector<Tensor> multipliers;
    for (const Layer& layer : layers_) multipliers.push_back(layer.length_multiplier);
    effective_length_ =
        static_cast<double>(options_.initial_length) * at::stack(multipliers).abs().min().item<double>();
  }

  Tensor table(LayerContext& context, std::int64_t n) override {
    const Layer& layer = layers_.at(context.layer);
    const Tensor d = at::arange(n, layer.w1.options().requires_grad(false));
    const Tensor x = psi(d, layer.c) / (psi(length(layer), layer.c) + kEpsilon);
    return network(x, layer).t();
  }

  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    if (context.contiguous && traits(context.span).bias == BiasKind::kToeplitz) {
      return PositionalEncoding::row_inputs(context, heads);
    }
    const Layer& l = layers_.at(context.layer);
    return {l.c, l.length_multiplier, l.w1, l.b1, l.w2, l.b2};
  }

  Tensor bias(const Rows& rows) override {
    if (rows.inputs.size() == 1) return PositionalEncoding::bias(rows);
    const Layer layer{rows.inputs[0], rows.inputs[1], rows.inputs[2], rows.inputs[3], rows.inputs[4], rows.inputs[5]};
    const at::ScalarType type = layer.w1.scalar_type();
    Tensor d = rows.distances().to(type), i = rows.query_positions.to(type);   // [rows,keys] or [B,1,rows,keys]
    if (d.dim() == 4) i = i.unsqueeze(1);
    const Tensor x = psi(d, layer.c) / (psi(at::maximum(i, length(layer)), layer.c) + kEpsilon).unsqueeze(-1);
    const Tensor out = network(x.reshape({-1}), layer);   // [elements, H]
    const std::int64_t batch = d.dim() == 4 ? d.size(0) : 1;
    return out.view({batch, d.size(-2), d.size(-1), out.size(1)}).permute({0, 3, 1, 2});
  }

 private:
  struct Layer {
    Tensor c, length_multiplier, w1, b1, w2, b2;
  };

  static Tensor psi(const Tensor& x, const Tensor& c) { return at::log1p((c * x).abs()); }

  Tensor length(const Layer& layer) const {
    return (layer.length_multiplier * static_cast<double>(options_.initial_length)).abs();
  }

  /// [n] → [n, H]
  static Tensor network(const Tensor& x, const Layer& layer) {
    const Tensor hidden = at::relu(x.unsqueeze(1) * layer.w1.t() + layer.b1);
    return at::matmul(hidden, layer.w2.t()) + layer.b2;
  }

  FireOptions options_;
  std::vector<Layer> layers_;
  double effective_length_;   // the least of all layers', at the start of the pass
};

}  // namespace

EncodingEntry fire_entry() {
  return with_options<Fire, FireOptions>(
      {.name = "fire",
       .summary = "Adds what a small network makes of log-distance over log-position.",
       .reference = "Li et al. 2023, arXiv:2310.04418",
       .facts = {.shift_invariant = ShiftInvariance::kUntilEffectiveLength, .learned = true},
       .family = Family::kBias,
       .acts_on = "logits",
       .parameters = "layers*(33*heads + 66)",
       .formula = "x = ψ(i − j)/(ψ(max(i, L_eff)) + 1e−6), ψ(z) = ln(1 + |c·z|), L_eff = "
                  "|length_multiplier·initial_length|\n"
                  "logit(i,j) += w2_h·relu(w1·x + b1) + b2_h",
       .known_for = "Distances relative to the query's own position, so that inputs of its network stay in the "
                    "trained range at any length. Strong on long texts in its paper; other tables show it explode "
                    "beyond twice the training length.",
       .errata = {"Copies disagree: DAPE's halves initial_length and uses leaky ReLU, others take GELU; this is the "
                  "listing in the paper's appendix.",
                  "A version without the dependence on i and without c also goes by this name; here it is not this "
                  "encoding."}});
}

}  // namespace pe::encodings
