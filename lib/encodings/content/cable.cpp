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
       .summary = "Adds a penalty: the sum of steps of the tokens between key and query, weighted by the query.",
       .reference = "Veisi et al. 2025, arXiv:2503.08067",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "layers*2*heads*width",
       .formula = "s_t = relu(W_c x_t), S_i = Σ_{l ≤ i} s_l, g_i = softplus(W_s x_i)\n"
                  "logit(i,j) += −g_i·(S_i − S_j)",
       .known_for = "The best encoding in its paper at small sizes; perplexity is flat to fifteen times the training "
                    "length.",
       .errata = {
           "The first version of the paper equals FoX in another notation, and its code omits the division by "
           "√d_h. This is the later version.",
           "As extra channels in bfloat16 its gradients are wrong by tens of percent. On a GPU a kernel computes "
           "the bias in float32."}});
}

}  // namespace pe::encodings
