// TAPE: cosines and sines of rotary angles are a state of each token and head, which attention mixes as it mixes values
// and which each layer updates from its own output. All updates are linear in the state, so a common shift stays one.
#include "encodings/registry.h"
#include "encodings/rotary/rotary.h"

namespace pe::encodings {
namespace {

struct TapeOptions : RotaryOptions {
  std::int64_t hidden = 48;
  void describe(support::FieldVisitor& v) {
    v.field("base", base, "Wavelengths grow from 2π to 2π·base tokens.", {.min = 1});
    v.check(base > 1, "a base of 1 would rotate all pairs equally");
    v.field("hidden", hidden, "Width of the update between heads.", {.min = 1, .max = 65536});
  }
};

class Tape : public PositionalEncoding {
 public:
  Tape(const TapeOptions& options, const Shape& shape) : PositionalEncoding(shape), options_(options) {
    if (shape.head_width % 2 != 0) {
      throw support::ConfigError("encoding 'tape' rotates pairs of channels, and the head width is not even", {},
                                 "choose a width and a number of heads that give an even head width");
    }
    const std::int64_t heads = shape.query_heads, hidden = options.hidden;
    for (int layer = 0; layer < shape.layers; ++layer) {
      layers_.push_back({add_constant("tape", "rho", {heads, heads}, 0, true, layer),
                         add_constant("tape", "up", {hidden, heads}, 0, true, layer),
                         add_normal("tape", "down", {heads, hidden}, 0, 0.02, true, layer),
                         add_normal("tape", "gate", {hidden, shape.width}, 0, 0.02, true, layer)});
    }
    theta_ = geometric_frequencies(options.base, shape.head_width);
  }

  Facts facts() const override { return {.rotates = true, .learned = true, .content_dependent = true}; }
  Traits traits(const Span& span) const override { return {.extra_values = true}; }

  void transform(LayerContext& context, Heads& heads) override {
    const Span& span = context.span;
    if (span.queries < span.keys) {
      throw support::ConfigError(
          "encoding 'tape' updates the state of every token in every layer, and this pass holds "
          "the last queries alone",
          {}, "run the whole text in one pass");
    }
    Tensor& cos = context.state.tensors["tape.cos"];
    Tensor& sin = context.state.tensors["tape.sin"];
    const std::int64_t head_count = shape_.query_heads;
    if (!cos.defined()) {
      const Tensor theta = at::tensor(theta_, at::TensorOptions(at::kDouble)).to(context.positions.device());
      Tensor angle = context.positions.to(at::kDouble).unsqueeze(-1) * theta;  // [S,n] or [B,S,n]
      angle = angle.dim() == 3 ? angle.unsqueeze(1) : angle.unsqueeze(0).unsqueeze(0);
      const std::vector<std::int64_t> sizes{span.batch, head_count, span.keys, angle.size(-1)};
      const at::ScalarType type = table_type(heads.q.scalar_type());
      cos = at::cos(angle).to(type).expand(sizes);
      sin = at::sin(angle).to(type).expand(sizes);
    }
    if (heads.k.size(1) != head_count) {  // each head has a state, so shared keys part here
      heads.k = heads.k.repeat_interleave(head_count / heads.k.size(1), 1);
      heads.v = heads.v.repeat_interleave(head_count / heads.v.size(1), 1);
    }
    heads.q = rotated(heads.q, cos, sin);
    heads.k = rotated(heads.k, cos, sin);
  }

  Tensor extra_values(LayerContext& context, const Heads& heads) override {
    const auto& tensors = context.state.tensors;
    return at::cat({tensors.at("tape.cos"), tensors.at("tape.sin")}, -1).to(heads.v.scalar_type());
  }

  Tensor finish(LayerContext& context, const Tensor& out, const Tensor& extra) override {
    if (!extra.defined()) return out;
    // The released code's contraction leaves one number for each head, a row's sum.
    const Tensor rho = layers_.at(context.layer).rho.sum(1).view({1, -1, 1, 1});
    const std::int64_t pairs = extra.size(-1) / 2;
    for (const auto& [name, at] : {std::pair<const char*, std::int64_t>{"tape.cos", 0}, {"tape.sin", pairs}}) {
      Tensor& state = context.state.tensors[name];
      state = state + (rho * extra.narrow(-1, at, pairs).to(rho.scalar_type())).to(state.scalar_type());
    }
    return out;
  }

  // state += down(silu(gate·y) ⊙ up(state)), up and down over the heads
  void after_feed_forward(LayerContext& context, const Tensor& y) override {
    const TapeLayer& layer = layers_.at(context.layer);
    const Tensor open =
        at::silu(at::matmul(y.to(layer.gate.scalar_type()), layer.gate.t())).transpose(1, 2);  // [B,P,T]
    for (const char* name : {"tape.cos", "tape.sin"}) {
      Tensor& state = context.state.tensors[name];
      const Tensor flat = state.to(layer.up.scalar_type()).flatten(2, 3);  // [B,H,T·n]
      const Tensor raised = at::matmul(layer.up, flat).unflatten(-1, {state.size(2), state.size(3)});
      const Tensor update = at::matmul(layer.down, (raised * open.unsqueeze(-1)).flatten(2, 3));
      state = state + update.view(state.sizes()).to(state.scalar_type());
    }
  }

 private:
  struct TapeLayer {
    Tensor rho, up, down, gate;
  };

  /// Heads become sequences, as `rotate` has one table for each of these.
  static Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin) {
    return rotate(x.flatten(0, 1).unsqueeze(1), cos.flatten(0, 1), sin.flatten(0, 1), PairLayout::kHalf)
        .view(x.sizes());
  }

  TapeOptions options_;
  std::vector<TapeLayer> layers_;
  std::vector<double> theta_;
};

}  // namespace

EncodingEntry tape_entry() {
  return with_options<Tape, TapeOptions>(
      {.name = "tape",
       .summary = "Rotates by a state of each token; attention and the layers update it.",
       .reference = "Zhu et al. 2025, arXiv:2501.00712",
       .facts = {.rotates = true, .learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "q and k, values",
       .parameters = "layers*(heads*heads + 2*hidden*heads + hidden*width)",
       .formula = "q and k rotate by a state (cos, sin) of each token and head, at first rope's\n"
                  "state += ρ_h·Σ_j w_ij·state_j after attention; state += down(silu(W y) ⊙ up(state)) after the "
                  "feed-forward",
       .known_for = "A rotary encoding whose angles are refined layer by layer; starts as rope.",
       .errata = {"The released contraction gives one value ρ_h for each head instead of a mixture of heads.",
                  "The update reads the output of the feed-forward network before the residual sum; the paper reads "
                  "the token.",
                  "The last layer updates a state that no layer reads. Its four tensors are counted, so that all "
                  "layers are equal, but they have no gradient."}});
}

}  // namespace pe::encodings
