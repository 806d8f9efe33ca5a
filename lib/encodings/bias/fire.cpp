// FIRE: one network for all heads of a layer reads a distance that is normalised by the query's position.
#include "encodings/bias/fire.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class Fire : public FireFamily {
 public:
  Fire(const FireOptions& options, const Shape& shape) : FireFamily("fire", shape, options, 0) {}

 protected:
  Tensor network(const Tensor& x, const Layer& layer) const override {
    const Tensor hidden = at::addmm(layer.b1.unsqueeze(1), layer.w1, x.unsqueeze(0)).relu_();   // [32,n]
    return at::addmm(layer.b2.unsqueeze(1), layer.w2, hidden);
  }
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
                  "encoding.",
                  "The last bias is the same for all keys of a row, which does not affect softmax. It is counted "
                  "and hardly trained, except with a sink."}});
}

}  // namespace pe::encodings
