// DAPE v2: two convolutions along the keys over the logits and a base bias of all heads.
#include "encodings/content/dape.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class Dape2 : public Dape {
 public:
  Dape2(const DapeOptions& options, const Shape& shape) : Dape("dape_v2", options, shape, 3) {}
};

}  // namespace

EncodingEntry dape_v2_entry() {
  return with_options<Dape2, DapeOptions>(
      {.name = "dape_v2",
       .summary = "Adds the output of convolutions along the keys, whose inputs are the logits and a base bias of all "
                  "heads.",
       .reference = "Zheng et al. 2024, arXiv:2410.04798",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "2*heads + layers*(289*heads + 32)",
       .formula = "f: convolution 2H → 32 over three keys, leaky relu, convolution 32 → H over three keys\n"
                  "logit = A + B + f([A; B]), zeros for keys in the future",
       .known_for = "As dape, but each pair of query and key also sees the logits of neighbouring keys.",
       .errata = {"In the released code, padding makes the last row of a text differ from the same row in a longer "
                  "text. Here a column of zeros follows the last key.",
                  "The last bias is the same for all keys of a row, which does not affect softmax. It is counted "
                  "and hardly trained, except with a sink."}});
}

}  // namespace pe::encodings
