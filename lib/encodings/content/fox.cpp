// FoX, the forgetting transformer: each token holds a gate for each head, and a key's logit loses the logarithms of the
// gates that came after it.
#include "encodings/attention/fused_bias.h"
#include "encodings/content/cumulative.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

enum class FoxGate { kData, kBiasOnly, kFixed };

struct FoxOptions {
  FoxGate gate = FoxGate::kData;
  double fox_bias_init = 0;
  double shortest = 4;
  double longest = 1024;
  void describe(support::FieldVisitor& v) {
    v.choice("gate", gate, {{"data", FoxGate::kData}, {"bias_only", FoxGate::kBiasOnly}, {"fixed", FoxGate::kFixed}},
             "Gates: computed from the token, one trained value per head, or fixed.");
    v.field("fox_bias_init", fox_bias_init,
            "Initial bias of the gates (gate: data). At 0, as in the paper, each token halves the weights; at 4, half "
            "is forgotten after 38 tokens.",
            {.min = -20, .max = 20});
    v.field("shortest", shortest, "Tokens that the first head remembers (gate: bias_only, fixed).",
            {.unit = "tokens", .min = 0.1});
    v.field("longest", longest, "Tokens that the last head remembers; the heads between are spaced geometrically.",
            {.unit = "tokens", .min = 0.1});
    v.check(shortest <= longest, "shortest is not above longest");
  }
};

class Fox : public PositionalEncoding, public FusesBias {
 public:
  Fox(const FoxOptions& options, const Shape& shape) : PositionalEncoding(shape), options_(options) {
    if (options.gate == FoxGate::kFixed) {
      fixed_ = memories().to(at::TensorOptions(shape.dtype).device(shape.device));
      return;
    }
    for (int layer = 0; layer < shape.layers; ++layer) {
      if (options.gate == FoxGate::kData) {
        weight_.push_back(add_normal("fox", "weight", {shape.query_heads, shape.width}, 0, 0.02, true, layer));
        bias_.push_back(add_constant("fox", "bias", {shape.query_heads}, options.fox_bias_init, false, layer));
      } else {
        bias_.push_back(add_parameter("fox", "bias", memories(), false, layer));
      }
    }
  }

  Facts facts() const override {
    return {.learned = !bias_.empty(), .content_dependent = options_.gate == FoxGate::kData};
  }
  Traits traits(const Span& span) const override {
    return {.bias = BiasKind::kChannels,
            .bias_needs_grad = !bias_.empty(),
            .bias_depends_on_batch = options_.gate == FoxGate::kData,
            .channels_cancel = options_.gate == FoxGate::kBiasOnly};
  }

  // c_i − c_j is −c_j up to a constant of the row.
  Channels channels(LayerContext& context, const Heads& heads) override {
    const Tensor c = sums(context);
    return {.query = at::ones({1, 1, context.span.queries, 1}, c.options().requires_grad(false)),
            .key = -c.unsqueeze(-1),
            .query_pieces = 1,
            .key_pieces = 3};
  }

  FusedKind fused_kind(const Span& span) const override { return FusedKind::kGated; }
  FusedBias fused_bias(LayerContext& context, const Heads& heads) override {
    const Tensor c = sums(context),
                 ones = at::ones({1, c.size(1), context.span.queries}, c.options().requires_grad(false));
    return {.gated = {.places = -c, .query_gates = ones}};
  }

  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override { return {sums(context)}; }

  Tensor bias(const Rows& rows) override {
    const RunningSums c = running_sums(rows, rows.inputs.at(0));
    return c.query - c.key;
  }

 private:
  /// b with σ(b) = exp(−1/τ), τ from `shortest` to `longest`: [H]
  Tensor memories() const {
    const Tensor tau = at::exp(at::linspace(std::log(options_.shortest), std::log(options_.longest), shape_.query_heads,
                                            at::TensorOptions(at::kDouble)));
    return -at::log(at::expm1(1 / tau));
  }

  /// c_t = Σ_{l ≤ t} ln f_l, [B or 1,H,S], at least float32.
  Tensor sums(const LayerContext& context) const {
    if (options_.gate == FoxGate::kData) {
      return at::log_sigmoid(token_scores(context, weight_.at(context.layer), bias_.at(context.layer))).cumsum(-1);
    }
    const Tensor& b = options_.gate == FoxGate::kFixed ? fixed_ : bias_.at(context.layer);
    const Tensor count = at::arange(1, context.span.keys + 1, b.options().requires_grad(false));
    return (at::log_sigmoid(b).unsqueeze(-1) * count).unsqueeze(0);
  }

  FoxOptions options_;
  std::vector<Tensor> weight_, bias_;  // [H,d_m], [H] for each layer
  Tensor fixed_;
};

}  // namespace

EncodingEntry fox_entry() {
  return with_options<Fox, FoxOptions>(
      {.name = "fox",
       .aliases = {"forgetting"},
       .summary = "Lets every token forget: the gates after a key lower its logit.",
       .reference = "Lin et al. 2025, arXiv:2503.02130",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "layers*heads*(width + 1)",
       .formula = "ln f_t = logσ(w_h·x_t + b_h), c_i = Σ_{l ≤ i} ln f_l\n"
                  "logit(i,j) += c_i − c_j",
       .known_for = "The content decides how fast a head forgets; nearly free on fused kernels. Its paper reports flat "
                    "or better perplexity beyond the training length. Constant gates are ALiBi.",
       .errata = {"At the paper's initial bias of 0 each token halves the weights; larger values (`fox_bias_init`) "
                  "remember from the start.",
                  "Results of its \"Pro\" block, which normalises and gates more, are not comparable to results "
                  "of the bias alone."}});
}

}  // namespace pe::encodings
