/// @file
/// Resonance RoPE: wavelengths rounded to whole tokens, after any other rule.
#pragma once

#include "encodings/rotary/rescaling.h"

namespace pe::encodings {

/// No factor: nothing is slowed.
struct ResonanceOptions : ExtensionOptions {
  void describe(support::FieldVisitor& v) { describe_without_factor(v); }
};

/// Rounds every wavelength to the nearest whole number, half to even, so that each pair's angles repeat exactly.
RotaryFrequencies with_whole_wavelengths(RotaryFrequencies frequencies);

/// `Rule`, then rounding.
template <typename Rule>
class Resonant : public Rule {
 public:
  using Rule::Rule;
  RotaryFrequencies rescale(const FrequencySchedule& of, const Span& span) const override {
    return with_whole_wavelengths(Rule::rescale(of, span));
  }
};

}  // namespace pe::encodings
