// YaRN's frequencies and attention factor, then wavelengths rounded to whole tokens.
#include "encodings/extension/resonance.h"
#include "encodings/extension/yarn.h"

namespace pe::encodings {

EncodingEntry yarn_resonance_entry() {
  return extension<Resonant<YarnRule>, YarnOptions>(
      {.name = "yarn_resonance",
       .aliases = {"resonance_yarn"},
       .summary = "YaRN with wavelengths rounded to whole tokens.",
       .reference = "Wang et al. 2024, arXiv:2403.00071",
       .family = Family::kExtension,
       .acts_on = "q and k, logits",
       .formula = "yarn's θ'_c, then Λ_c = round(2π/θ'_c) and θ''_c = 2π/Λ_c; yarn's attention factor",
       .known_for = "The combination that the Resonance paper recommends for extension."});
}

}  // namespace pe::encodings
