// LongRoPE's frequencies, then wavelengths rounded to whole tokens.
#include "encodings/extension/longrope.h"
#include "encodings/extension/resonance.h"

namespace pe::encodings {

EncodingEntry longrope_resonance_entry() {
  return extension<Resonant<LongRopeRule>, LongRopeOptions>(
      {.name = "longrope_resonance",
       .summary = "LongRoPE with wavelengths rounded to whole tokens.",
       .reference = "Ding et al. 2024, arXiv:2402.13753, and Wang et al. 2024, arXiv:2403.00071",
       .family = Family::kExtension,
       .acts_on = "q and k, logits",
       .formula = "longrope's θ'_c, then Λ_c = round(2π/θ'_c) and θ''_c = 2π/Λ_c; longrope's attention factor",
       .known_for = "Searched divisors, then whole wavelengths; no paper reports on this combination."});
}

}  // namespace pe::encodings
