// LongRoPE2: pairs that never made a whole turn in training are slowed by the factor or more, the others by a base that
// fits. Up to the training length the model is exactly the trained one.
#include "encodings/extension/longrope.h"

namespace pe::encodings {
namespace {

class LongRope2Rule : public LongRopeRule {
 public:
  LongRope2Rule(const LongRopeOptions& options, const Shape& shape)
      : LongRopeRule(options, shape, LongRopeVersion::kTwo) {}
};

}  // namespace

EncodingEntry longrope2_entry() {
  return extension<LongRope2Rule, LongRopeOptions>(
      {.name = "longrope2",
       .summary = "RoPE for longer texts: searched divisors for pairs without a full turn in training; short texts see "
                  "the trained model.",
       .reference = "Shang et al. 2025, arXiv:2502.20082",
       .family = Family::kExtension,
       .acts_on = "q and k, logits",
       .formula = "θ'_c = θ_c/λ_c beyond L, λ = long_factors; rope up to L\n"
                  "without a list: λ_c = s for pairs from the critical one ⌈(d_h/2)·log_base(L/2π)⌉ on, λ_c = "
                  "s^(c/critical) before it\n"
                  "logits × a², a = √(1 + ln s/ln L), beyond L",
       .known_for = "LongRoPE with a search that starts from the pairs without a full turn in training and scores only "
                    "needles. Its paper reports 82 on RULER at 128k, and 49 for YaRN (LLaMA3-8B)."});
}

}  // namespace pe::encodings
