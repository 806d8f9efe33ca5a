// CABLE without weights: tokens take steps, read off their content, and a key loses those taken after it.
#include "encodings/content/cable.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class PlainCable : public Cable {
 public:
  explicit PlainCable(const Shape& shape) : Cable("cable_nw", CableForm::kPlain, shape) {}
};

}  // namespace

EncodingEntry cable_nw_entry() {
  return without_options<PlainCable>(
      {.name = "cable_nw",
       .summary = "Adds a penalty: the sum of steps of the tokens between key and query.",
       .reference = "Veisi et al. 2025, arXiv:2503.08067",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "layers*heads*width",
       .formula = "s_t = relu(W_c x_t), S_i = Σ_{l ≤ i} s_l\n"
                  "logit(i,j) += −(S_i − S_j)",
       .known_for = "CABLE without the weight of the query: a factor of low rank, as cheap as ALiBi."});
}

}  // namespace pe::encodings
