// No encoding: the causal mask alone shows the order.
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

/// Without a causal mask nothing shows the order: attention then treats tokens as a set.
class None : public PositionalEncoding {
 public:
  using PositionalEncoding::PositionalEncoding;
  bool needs_causal_mask() const override { return false; }
};

}  // namespace

EncodingEntry none_entry() {
  return without_options<None>(
      {.name = "none",
       .aliases = {"nope", "sink_none"},
       .summary = "No positional encoding; only the causal mask gives order.",
       .reference = "Haviv et al. 2022, arXiv:2203.16634; Kazemnejad et al. "
                    "2023, arXiv:2305.19466",
       .family = Family::kBaseline,
       .acts_on = "nothing",
       .formula = "logit(i,j) = q_i·k_j/√d_h for j ≤ i",
       .known_for = "The control of every comparison: a decoder can count with the causal mask alone. It is close to "
                    "other encodings within the training length. Beyond it, attention spreads over more keys and "
                    "perplexity rises; a temperature repairs part of that."});
}

}  // namespace pe::encodings
