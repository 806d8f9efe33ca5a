// FIRE with a separate network, c and L for each head.
#include "encodings/bias/fire.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class FirePerHead : public FireFamily {
 public:
  FirePerHead(const FireOptions& options, const Shape& shape)
      : FireFamily("fire_per_head", shape, options, shape.query_heads) {}

 protected:
  Tensor network(const Tensor& x, const Layer& layer) const override {
    // As products of matrices, since a pass over memory for each step of the arithmetic costs more than the arithmetic.
    const Tensor wide = x.dim() == 1 ? x.expand({layer.w1.size(0), x.size(0)}) : x;
    const Tensor hidden =
        at::baddbmm(layer.b1.unsqueeze(2), layer.w1.unsqueeze(2), wide.unsqueeze(1)).relu_();  // [H,32,n]
    return at::baddbmm(layer.b2.view({-1, 1, 1}), layer.w2.unsqueeze(1), hidden).squeeze(1);
  }
};

}  // namespace

EncodingEntry fire_per_head_entry() {
  return with_options<FirePerHead, FireOptions>(
      {.name = "fire_per_head",
       .summary = "Adds the output of a small network, one for each head, of log-distance over log-position.",
       .reference = "FIRE (Li et al. 2023, arXiv:2310.04418) with a network for each head, after the guide",
       .facts = {.shift_invariant = ShiftInvariance::kUntilEffectiveLength, .learned = true},
       .family = Family::kBias,
       .acts_on = "logits",
       .parameters = "layers*99*heads",
       .formula = "x_h = ψ_h(i − j)/(ψ_h(max(i, L_h)) + 1e−6), ψ_h(z) = ln(1 + |c_h·z|)\n"
                  "logit(i,j) += w2_h·relu(w1_h·x_h + b1_h) + b2_h",
       .known_for = "FIRE with a c, a length and a network for each head, three times its parameters.",
       .errata = {"A combination from a guide; in the paper heads share everything except the output.",
                  "The last bias is the same for all keys of a row, which does not affect softmax. It is counted "
                  "and hardly trained, except with a sink."}});
}

}  // namespace pe::encodings
