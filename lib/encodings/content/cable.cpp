// CABLE: tokens take steps, read off their content; a query weighs the steps between itself and a key.
#include "encodings/content/cable.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class WeightedCable : public Cable {
 public:
  explicit WeightedCable(const Shape& shape) : Cable("cable", CableForm::kWeighted, shape) {}
};

}  // namespace

EncodingEntry cable_entry() {
  return without_options<WeightedCable>(
      {.name = "cable",
       .summary = "Adds a penalty on the steps that the tokens between key and query take, weighted by the query.",
       .reference = "Veisi et al. 2025, arXiv:2503.08067",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "layers*2*heads*width",
       .formula = "s_t = relu(W_c x_t), S_i = Σ_{l ≤ i} s_l, g_i = softplus(W_s x_i)\n"
                  "logit(i,j) += −g_i·(S_i − S_j)",
       .known_for = "The best of its paper's comparison at small sizes, flat to fifteen times the training length "
                    "there.",
       .errata = {"The first version of the paper is FoX in other letters, and its code forgets to divide by √d_h; "
                  "this is the later version.",
                  "As extra channels in bfloat16 its gradients are wrong by tens of percent, so training takes the "
                  "bias itself."}});
}

}  // namespace pe::encodings
