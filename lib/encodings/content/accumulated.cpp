// Rotary encodings whose angles are sums over the tokens: each token sets the angle by which it rotates later tokens.
#include "encodings/attention/positional_encoding.h"
#include "encodings/content/token_sums.h"
#include "encodings/registry.h"
#include "encodings/rotary/rotary.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

class AccumulatedRotation : public PositionalEncoding {
 public:
  /// @param values rotates values too, and the output back. @throws ConfigError for an odd head width.
  AccumulatedRotation(const std::string& kind, const Shape& shape, PairLayout layout, bool values = false);

  void transform(LayerContext& context, Heads& heads) final;
  Tensor finish(LayerContext& context, const Tensor& out, const Tensor& extra) final;

 protected:
  /// [B or 1, G, S, d_h/2], radians, at least float32.
  virtual Tensor angles(const LayerContext& context) = 0;
  /// x of the layer in the dtype of the parameters. @throws ShapeError where it is missing.
  Tensor tokens(const LayerContext& context) const;
  /// [B,S,G·n] → [B,G,S,n]
  Tensor by_group(const Tensor& t) const { return t.unflatten(-1, {shape_.key_value_heads, -1}).transpose(1, 2); }

  std::string kind_;

 private:
  PairLayout layout_;
  bool values_;
};

using support::cat;

AccumulatedRotation::AccumulatedRotation(const std::string& kind, const Shape& shape, PairLayout layout, bool values)
    : PositionalEncoding(shape), kind_(kind), layout_(layout), values_(values) {
  check_even_head(kind, shape.head_width);
}

Tensor AccumulatedRotation::tokens(const LayerContext& context) const {
  if (context.x.defined()) return context.x.to(shape_.dtype);
  throw ShapeError(cat("encoding '", kind_, "' reads the tokens x of a layer, and none were given"));
}

void AccumulatedRotation::transform(LayerContext& context, Heads& heads) {
  const Span& span = context.span;
  const Tensor angle = angles(context), cos = at::cos(angle), sin = at::sin(angle);
  const Tensor query_cos = cos.narrow(2, span.keys - span.queries, span.queries);
  const Tensor query_sin = sin.narrow(2, span.keys - span.queries, span.queries);
  heads.q = rotate(heads.q, query_cos, query_sin, layout_);
  heads.k = rotate(heads.k, cos, sin, layout_);
  if (!values_) return;
  heads.v = rotate(heads.v, cos, sin, layout_);
  context.state.tensors[cat(kind_, ".cos.", context.layer)] = query_cos;
  context.state.tensors[cat(kind_, ".sin.", context.layer)] = query_sin;
}

Tensor AccumulatedRotation::finish(LayerContext& context, const Tensor& out, const Tensor& extra) {
  if (!values_) return out;
  const auto taken = [&](const char* name) {
    auto kept = context.state.tensors.extract(cat(kind_, name, context.layer));
    return kept.mapped();
  };
  const Tensor cos = taken(".cos."), sin = taken(".sin.");
  return rotate(out, cos, -sin, layout_);
}

struct CaropeOptions {
  PairLayout layout = PairLayout::kHalf;
  void describe(support::FieldVisitor& v) {
    v.choice("layout", layout, {{"half", PairLayout::kHalf}, {"interleaved", PairLayout::kInterleaved}},
             "Which channels form a pair: (i, i + d/2), or (2i, 2i + 1).");
  }
};

/// CARoPE: each token sets, for each head, how fast the pairs rotate past it.
class Carope : public AccumulatedRotation {
 public:
  Carope(const CaropeOptions& options, const Shape& shape) : AccumulatedRotation("carope", shape, options.layout) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      weight_.push_back(add_normal("carope", "weight", {shape.key_value_heads, shape.width}, 0, 0.02, true, layer));
    }
  }

  Facts facts() const override { return {.rotates = true, .learned = true, .content_dependent = true}; }

 protected:
  Tensor angles(const LayerContext& context) override {
    const Tensor scores = at::matmul(tokens(context), weight_.at(context.layer).t());  // [B,S,G]
    const Tensor log_f = -at::log1p(at::softplus(scores)).unsqueeze(-1);
    const Tensor power = at::arange(shape_.head_width / 2, log_f.options().requires_grad(false));
    return by_group(running_total(context.span, at::exp(log_f * power).flatten(2)));
  }

 private:
  std::vector<Tensor> weight_;  // [G,d_m] for each layer
};

// A token's increment of the angles: its map convolved over the last tokens, its map alone, its map in place of a sum,
// or a draw.
enum class Increments { kConv, kPlain, kOwn, kRandom };

struct SelectiveRopeOptions {
  double base = 500000;
  std::int64_t rank = 32;
  std::int64_t kernel = 4;
  bool bias = false;
  bool gate = false;
  bool values = false;
  PairLayout layout = PairLayout::kHalf;
  Increments increments = Increments::kConv;
  void describe(support::FieldVisitor& v) {
    v.field("base", base, "Pair c rotates by base^(−2c/d_h) times its sum.", {.min = 1});
    v.check(base > 1, "a base of 1 would rotate all pairs equally");
    v.field("rank", rank, "Rank of the map from tokens to increments.", {.min = 1, .max = 65536});
    v.field("kernel", kernel, "Number of tokens that the convolution of increments reads.",
            {.unit = "tokens", .min = 1, .max = 1024});
    v.field("bias", bias, "Add exp(phase_bias) to each increment; with a zero map this is rope.");
    v.field("gate", gate, "Multiply increments by a sigmoid of the token, for each key/value head.");
    v.field("values", values, "Rotate values too, and rotate the output back.");
    v.choice("layout", layout, {{"half", PairLayout::kHalf}, {"interleaved", PairLayout::kInterleaved}},
             "Which channels form a pair: (i, i + d/2), or (2i, 2i + 1).");
    v.choice("increments", increments,
             {{"conv", Increments::kConv},
              {"plain", Increments::kPlain},
              {"own", Increments::kOwn},
              {"random", Increments::kRandom}},
             "Source of the increments: the map of the token convolved over the last tokens, only the map, the map as "
             "the angle without a sum, or random draws (a control).");
  }
};

/// Selective RoPE: the angle of a token is a running sum of increments that the tokens themselves give.
class SelectiveRope : public AccumulatedRotation {
 public:
  SelectiveRope(const SelectiveRopeOptions& options, const Shape& shape)
      : AccumulatedRotation("selective_rope", shape, options.layout, options.values),
        options_(options),
        angles_((shape.key_value_heads * shape.head_width) / 2) {
    if (shape.width % shape.query_heads != 0) {
      throw support::ConfigError(
          support::cat("encoding 'selective_rope' cuts tokens into a slice for each head, and the width ", shape.width,
                       " is no multiple of ", shape.query_heads, " heads"));
    }
    const std::int64_t groups = shape.key_value_heads, pairs = shape.head_width / 2;
    for (int layer = 0; layer < shape.layers; ++layer) {
      Layer made;
      if (reads_tokens()) {
        made.down = add_normal("selective_rope", "down", {options.rank, shape.width}, 0, 0.02, true, layer);
        made.up = add_normal("selective_rope", "up", {angles_, options.rank}, 0, 0.02, true, layer);
      }
      if (options.increments == Increments::kConv) {
        made.conv = add_normal("selective_rope", "conv", {angles_, options.kernel}, 0, 0.02, true, layer);
      }
      if (options.bias)
        made.phase_bias = add_constant("selective_rope", "phase_bias", {groups, pairs}, 0, false, layer);
      if (options.gate) {
        made.gate_weight = add_normal("selective_rope", "gate_weight", {groups, shape.width}, 0, 0.02, true, layer);
        made.gate_bias = add_constant("selective_rope", "gate_bias", {groups}, 0, false, layer);
      }
      layers_.push_back(made);
    }
    theta_ = geometric_frequencies(options.base, shape.head_width);
  }

  Facts facts() const override {
    const bool random = options_.increments == Increments::kRandom, reads = reads_tokens() || options_.gate;
    return {.shift_invariant = random ? ShiftInvariance::kNever : ShiftInvariance::kAlways,
            .rotates = true,
            .learned = reads || options_.bias,
            .content_dependent = reads};
  }

 protected:
  Tensor angles(const LayerContext& context) override {
    const Layer& layer = layers_.at(context.layer);
    const Tensor slices = reads_tokens() || options_.gate ? normed_slices(context) : Tensor();
    Tensor phi =
        reads_tokens() ? at::matmul(at::matmul(slices, layer.down.t()), layer.up.t()) : drawn(context);  // [B,S,G·n]
    if (options_.increments == Increments::kConv) phi = causal_convolution(context.span, phi, layer.conv);
    if (options_.bias) phi = phi + at::exp(layer.phase_bias).flatten();
    if (options_.gate) {
      const Tensor open = at::sigmoid(at::matmul(slices, layer.gate_weight.t()) + layer.gate_bias);  // [B,S,G]
      phi = (phi.unflatten(-1, {shape_.key_value_heads, -1}) * open.unsqueeze(-1)).flatten(2);
    }
    if (options_.increments != Increments::kOwn) phi = running_total(context.span, phi);
    const Tensor theta = at::tensor(theta_, at::TensorOptions(at::kDouble)).to(phi.options().requires_grad(false));
    return by_group(phi) * theta;
  }

 private:
  struct Layer {
    Tensor down, up, conv, phase_bias, gate_weight, gate_bias;
  };

  bool reads_tokens() const { return options_.increments != Increments::kRandom; }

  /// u: each head's slice of a token, over its length.
  Tensor normed_slices(const LayerContext& context) const {
    const Tensor slices = tokens(context).unflatten(-1, {shape_.query_heads, -1});
    return (slices * at::rsqrt((slices * slices).sum({-1}, true) + 1e-6)).flatten(2);
  }

  /// Standard normals by the row within its document, [1 or B, S, G·n].
  Tensor drawn(const LayerContext& context) const {
    const Span& span = context.span;
    const std::uint64_t key = support::make_key(
        {shape_.seed, support::fnv1a64("selective_rope.random"), static_cast<std::uint64_t>(context.layer)});
    Tensor all = at::empty({span.keys, angles_}, at::kDouble);
    support::philox_normal(key, all.mutable_data_ptr<double>(), static_cast<std::size_t>(all.numel()));
    all = all.to(at::TensorOptions(shape_.dtype).device(span.device));
    if (!span.doc_start.defined()) return all.unsqueeze(0);
    const Tensor row = at::arange(span.keys, span.doc_start.options()) - span.doc_start;  // [S] or [B,S]
    const Tensor picked = all.index_select(0, row.flatten());
    return picked.view({row.dim() == 2 ? row.size(0) : 1, span.keys, angles_});
  }

  SelectiveRopeOptions options_;
  std::int64_t angles_;  // G·d_h/2
  std::vector<Layer> layers_;
  std::vector<double> theta_;
};

}  // namespace

EncodingEntry carope_entry() {
  return with_options<Carope, CaropeOptions>(
      {.name = "carope",
       .summary = "Rotates by sums of powers of a frequency that depends on the token and the head.",
       .reference = "Veisi et al. 2025, arXiv:2507.23083",
       .facts = {.rotates = true, .learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "q and k",
       .parameters = "layers*kv_heads*width",
       .formula =
           "f_t = 1/(1 + softplus(w_g·x_t)), the angle of pair c at token t is Σ_{s ≤ t} f_s^c, c = 0 .. d_h/2 − 1",
       .known_for = "RoPE with a base that every token sets; its authors report lower perplexity than rope at "
                    "small sizes.",
       .errata = {"The paper leaves the range of c open. From 0 on, pair 0 rotates by 1 radian per token for "
                  "every token.",
                  "f starts near 0.59, far from base^(−2/d_h), so pairs from c ≈ 20 on are initially not rotated."}});
}

EncodingEntry selective_rope_entry() {
  return with_options<SelectiveRope, SelectiveRopeOptions>(
      {.name = "selective_rope",
       .summary = "Rotates by running sums of increments that a small map computes from the tokens.",
       .reference = "Movahedi et al. 2025, arXiv:2511.17388; accumulated rotations: arXiv:2606.24975 (2026)",
       .facts = {.rotates = true, .learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "q and k",
       .parameters = "layers*(rank*width + kv_heads*head_width/2*(rank + kernel))",
       .formula = "u_t: slices of x_t, one a head, each over its length; f_t = up·down·u_t\n"
                  "φ_t[c] = Σ_{m < kernel} conv[c, kernel − 1 − m]·f_{t−m}[c]; bias: + exp(b_c); gate: × σ(W u_t + b)\n"
                  "the angle of pair c at token t is base^(−2c/d_h)·Σ_{s ≤ t} φ_s[c]",
       .known_for = "Rotations that depend on the content. Softmax attention with them tracks states that rope loses, "
                    "and linear attention recalls better. It starts without rotation unless `bias` is set.",
       .errata = {"The released code normalises the slice of each head, not the token. It normalises q and k after "
                  "rotation; here the norm precedes rotation.",
                  "Its option without a convolution uses differences of the map (`increments: own`), not a plain sum.",
                  "`plain` and `random` approximate accumulated rotations, whose parametrisation was not available."}});
}

}  // namespace pe::encodings
