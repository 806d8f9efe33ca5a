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
    const Tensor hidden = at::addmm(layer.b1.unsqueeze(1), layer.w1, x.unsqueeze(0)).relu_();  // [32,n]
    return at::addmm(layer.b2.unsqueeze(1), layer.w2, hidden);
  }
};

}  // namespace

EncodingEntry fire_entry() {
  return with_options<Fire, FireOptions>(
      {.name = "fire",
       .summary = "Adds the output of a small network of log-distance over log-position.",
       .reference = "Li et al. 2023, arXiv:2310.04418",
       .facts = {.shift_invariant = ShiftInvariance::kUntilEffectiveLength, .learned = true},
       .family = Family::kBias,
       .acts_on = "logits",
       .parameters = "layers*(33*heads + 66)",
       .formula = "x = ψ(i − j)/(ψ(max(i, L_eff)) + 1e−6), ψ(z) = ln(1 + |c·z|), L_eff = "
                  "|length_multiplier·initial_length|\n"
                  "logit(i,j) += w2_h·relu(w1·x + b1) + b2_h",
       .known_for = "Inputs of its network are distances relative to the position of the query, so they stay in the "
                    "trained range at any length. Its paper reports good results on long texts. Other tables show very "
                    "high perplexity beyond twice the training length.",
       .errata = {"Copies disagree: the copy of DAPE halves initial_length and uses leaky ReLU, others use GELU. This "
                  "project follows the listing in the paper's appendix.",
                  "A version without i and c also has this name; this project calls it fire_guide.",
                  "The last bias is the same for all keys of a row, which does not affect softmax. It is counted "
                  "and hardly trained, except with a sink."}});
}

}  // namespace pe::encodings
