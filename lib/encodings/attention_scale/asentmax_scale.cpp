// The temperature of adaptive-scalable entmax: delta + beta·(ln(n + 1))^gamma, n the number of visible keys.
#include "encodings/attention/temperature.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

enum class AsentmaxForm { kStatic, kReported };

struct AsentmaxOptions {
  double delta = 1;
  AsentmaxForm form = AsentmaxForm::kStatic;
  void describe(support::FieldVisitor& v) {
    v.field("delta", delta, "Share of the plain logits that stays.", {.min = 0, .max = 10});
    v.choice("form", form, {{"static", AsentmaxForm::kStatic}, {"reported", AsentmaxForm::kReported}},
             "Form of beta and gamma: one pair for each head, as in the released code; or computed from each token "
             "(softplus and 2·tanh of linear maps), as in the paper.");
  }
};

class AsentmaxScale : public Temperature {
 public:
  AsentmaxScale(const AsentmaxOptions& options, const Shape& shape) : Temperature(shape), options_(options) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      if (options.form == AsentmaxForm::kStatic) {
        beta_.push_back(add_uniform("asentmax_scale", "beta", {shape.query_heads}, 0.1, 1, false, layer));
        gamma_.push_back(add_normal("asentmax_scale", "gamma", {shape.query_heads}, 0, 0.1, false, layer));
      } else {
        const std::vector<std::int64_t> sizes{shape.query_heads, shape.width};
        beta_.push_back(add_normal("asentmax_scale", "beta_weight", sizes, 0, 0.02, true, layer));
        gamma_.push_back(add_normal("asentmax_scale", "gamma_weight", sizes, 0, 0.02, true, layer));
      }
    }
  }

  Facts facts() const override {
    return {.shift_invariant = ShiftInvariance::kNever,
            .learned = true,
            .content_dependent = options_.form == AsentmaxForm::kReported};
  }

  /// In a stack with a base that leaves some heads without position, it acts on those heads alone.
  void enter_stack(const std::vector<const PositionalEncoding*>& others) override {
    spared_ = at::zeros({shape_.layers, shape_.query_heads}, at::kBool);
    for (const PositionalEncoding* other : others) {
      for (int layer = 0; layer < shape_.layers; ++layer) {
        for (int head = 0; head < shape_.query_heads; ++head) {
          if (other->is_position_free_head(layer, head)) spared_[layer][head].fill_(true);
        }
      }
    }
    if (!spared_.any().item<bool>())
      spared_ = Tensor();
    else
      spared_ = spared_.to(shape_.device);
  }

 protected:
  Tensor factor(const LayerContext& context) override {
    Tensor beta = beta_.at(context.layer), gamma = gamma_.at(context.layer);
    if (options_.form == AsentmaxForm::kStatic) {
      beta = beta.unsqueeze(-1);  // [H,1]
      gamma = gamma.unsqueeze(-1);
    } else {
      const Tensor x = query_tokens(context).to(beta.scalar_type());
      beta = at::softplus(at::matmul(x, beta.t())).transpose(1, 2);  // [B,H,T]
      gamma = 2 * at::tanh(at::matmul(x, gamma.t())).transpose(1, 2);
    }
    const Tensor log = at::log1p(visible_counts(context)).to(beta.scalar_type());
    const Tensor tau = options_.delta + beta * at::pow(log, gamma);
    if (!spared_.defined()) return tau;
    return at::where(spared_[context.layer].unsqueeze(-1), tau, at::ones({}, tau.options().requires_grad(false)));
  }

 private:
  AsentmaxOptions options_;
  std::vector<Tensor> beta_, gamma_;  // [H] or [H,d_m] for each layer
  Tensor spared_;                     // bool [layers,H]; undefined: all heads
};

}  // namespace

EncodingEntry asentmax_scale_entry() {
  return with_options<AsentmaxScale, AsentmaxOptions>(
      {.name = "asentmax_scale",
       .summary = "Multiplies logits by an offset plus a trained power of the logarithm of the number of visible keys.",
       .reference = "Vasylenko et al. 2025, arXiv:2506.16640",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .learned = true},
       .family = Family::kTemperature,
       .acts_on = "q",
       .parameters = "layers*2*heads",
       .formula = "logit(i,j) × (delta + β_h·(ln(n_i + 1))^γ_h)",
       .known_for = "Lets each head choose how fast it sharpens, up to not at all; made for heads without "
                    "position, so with nape it does not affect the others.",
       .errata = {"The paper computes β and γ from the tokens; the released code has one pair for each head "
                  "(`form`)."}});
}

}  // namespace pe::encodings
