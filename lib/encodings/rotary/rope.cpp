// RoPE: q and k are rotated by angles proportional to their positions, so that their product depends on the distance
// alone.
#include "encodings/rotary/rotary_schedules.h"

namespace pe::encodings {
namespace {

class Rope : public Rotary {
 public:
  Rope(const RotaryOptions& options, const Shape& shape, RescalingPointer rescaling = {})
      : Rotary("rope", shape, options, std::move(rescaling)) {}
};

constexpr const char* kRopeSummary = "Rotates pairs of query and key channels by angles proportional to position.";

}  // namespace

RotarySchedule rope_schedule() { return rotary_schedule<Rope, RotaryOptions>("rope", kRopeSummary); }

EncodingEntry rope_entry() {
  return with_options<Rope, RotaryOptions>(
      {.name = "rope",
       .aliases = {"rotary"},
       .summary = kRopeSummary,
       .reference = "Su et al. 2021, arXiv:2104.09864",
       .facts = {.rotates = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .formula = "q_i ← R(i)·q_i, k_j ← R(j)·k_j\n"
                  "R(p) turns pair c by p·θ_c, θ_c = base^(−2c/d_h), c = 0 .. d_h/2 − 1\n"
                  "logit(i,j) = Σ_c [a_c·cos(d·θ_c) − b_c·sin(d·θ_c)]/√d_h, a and b from q_i and k_j",
       .known_for = "The encoding of most open language models: relative, without parameters, free in cost. Pairs "
                    "whose wavelength exceeds the training length meet unseen angles beyond it, and perplexity "
                    "rises sharply there; the context extensions repair that.",
       .errata = {"Two layouts of pairs exist: half (c and c + d_h/2) and interleaved (2c and 2c + 1). Weights of one "
                  "layout in the other give a wrong model without an error.",
                  "If frequencies or positions are cast to bfloat16 with the model, they are wrong beyond position "
                  "256; here they stay float64.",
                  "The rotary baseline of Kazemnejad et al. 2023 rotates only a quarter of the channels."}});
}

}  // namespace pe::encodings
