// DAPE: a small network of the logits and a base bias of all heads, one pair of tokens at a time.
#include "encodings/content/dape.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class Dape1 : public Dape {
 public:
  Dape1(const DapeOptions& options, const Shape& shape) : Dape("dape", options, shape, 1) {}
};

}  // namespace

EncodingEntry dape_entry() {
  return with_options<Dape1, DapeOptions>(
      {.name = "dape",
       .summary = "Adds the output of a small network over all heads, whose inputs are the logits and a base bias.",
       .reference = "Zheng et al. 2024, arXiv:2405.14722",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "2*heads + layers*(97*heads + 32)",
       .formula = "f: linear 2H → 32, leaky relu, linear 32 → H, for each pair of tokens\n"
                  "logit = A + B + f([A; B]), A the logits, B a base bias",
       .known_for = "Corrects a static bias from the logits: flat beyond the training length in its paper, at "
                    "about three times the training time.",
       .errata = {"Two classes of the released code, for bases without a bias, declare twice their number of channels "
                  "and fail.",
                  "The last bias is the same for all keys of a row, which does not affect softmax. It is counted "
                  "and hardly trained, except with a sink."}});
}

}  // namespace pe::encodings
