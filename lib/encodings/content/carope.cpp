// CARoPE: each token says, for each head, how fast the pairs turn past it.
#include "encodings/content/accumulated.h"
#include "encodings/content/token_sums.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

struct CaropeOptions {
  PairLayout layout = PairLayout::kHalf;
  void describe(support::FieldVisitor& v) {
    v.choice("layout", layout, {{"half", PairLayout::kHalf}, {"interleaved", PairLayout::kInterleaved}},
             "Which channels form a pair: (i, i + d/2), or (2i, 2i + 1).");
  }
};

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

}  // namespace pe::encodings
