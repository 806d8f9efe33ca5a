// CABLE with a logarithmic kernel on the steps between key and query.
#include "encodings/content/cable.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class LogSquareCable : public Cable {
 public:
  explicit LogSquareCable(const Shape& shape) : Cable("k_cable", CableForm::kLogSquare, shape) {}
};

}  // namespace

EncodingEntry k_cable_entry() {
  return without_options<LogSquareCable>(
      {.name = "k_cable",
       .summary = "Adds a penalty on the logarithm of the squared steps of the tokens between key and query.",
       .reference = "Veisi et al. 2025, arXiv:2503.08067",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "layers*heads*width",
       .formula = "s_t = relu(W_c x_t), S_i = Σ_{l ≤ i} s_l\n"
                  "logit(i,j) += −ln(1 + (S_i − S_j)²)",
       .known_for = "CABLE with a logarithmic kernel, as in KERPLE.",
       .errata = {"The sign is chosen so that the bias decays."}});
}

}  // namespace pe::encodings
