// Resonance RoPE: wavelengths are whole numbers of tokens, so that beyond the training length no pair meets an angle
// that it has not met within it.
#include "encodings/extension/resonance.h"

#include <cmath>
#include <numbers>

namespace pe::encodings {
namespace {

class NoRescaling : public Rescaling {
 public:
  NoRescaling(const ResonanceOptions&, const Shape&) {}
  RotaryFrequencies rescale(const FrequencySchedule& of, const Span& span) const override {
    return {.theta = of.theta};
  }
};

}  // namespace

RotaryFrequencies with_whole_wavelengths(RotaryFrequencies frequencies) {
  const auto round_all = [](std::vector<double>& thetas) {
    std::vector<double> periods(thetas.size(), 0.0);
    for (std::size_t i = 0; i < thetas.size(); ++i) {
      if (thetas[i] == 0) continue;
      periods[i] = std::max(1.0, std::nearbyint(2 * std::numbers::pi / thetas[i]));
      thetas[i] = 2 * std::numbers::pi / periods[i];
    }
    return periods;
  };
  frequencies.periods = round_all(frequencies.theta);
  if (!frequencies.protected_theta.empty()) round_all(frequencies.protected_theta);
  return frequencies;
}

EncodingEntry resonance_entry() {
  return extension<Resonant<NoRescaling>, ResonanceOptions>(
      {.name = "resonance",
       .summary = "RoPE with wavelengths rounded to whole tokens; for models trained with it.",
       .reference = "Wang et al. 2024, arXiv:2403.00071",
       .family = Family::kExtension,
       .acts_on = "q and k",
       .formula = "Λ_c = round(2π/θ_c), angle of pair c at p: (p mod Λ_c)·2π/Λ_c",
       .known_for = "With whole wavelengths, fast pairs have no new angle beyond the training length. Only for models "
                    "trained with it: the fastest pair changes by 5 %.",
       .errata = {"Positions must be whole; the released LLaMA fork builds tables of half the width in one place."}});
}

}  // namespace pe::encodings
