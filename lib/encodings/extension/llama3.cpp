// Llama 3's scaling: short wavelengths stay, long ones are stretched by the factor, those between are blended.
#include "encodings/extension/wavelength_ramp.h"

namespace pe::encodings {
namespace {

struct Llama3Options : ExtensionOptions {
  std::optional<std::int64_t> train_length;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  Llama3Options() { factor = 8; }
  void describe(support::FieldVisitor& v) {
    ExtensionOptions::describe(v);
    v.field("train_length", train_length, "Training length of the extended model; auto: from the model.",
            {.unit = "tokens", .min = 1});
    v.field("low_freq_factor", low_freq_factor,
            "Wavelengths above train_length divided by this are multiplied by the whole factor.", {.min = 0});
    v.field("high_freq_factor", high_freq_factor, "Wavelengths below train_length divided by this are unchanged.",
            {.min = 0});
    v.check(high_freq_factor > low_freq_factor, "high_freq_factor is above low_freq_factor");
  }
};

class Llama3 : public Rescaling {
 public:
  Llama3(const Llama3Options& options, const Shape& shape)
      : options_(options), train_length_(extended_length("llama3", options.train_length, shape)) {}

  RotaryFrequencies rescale(const FrequencySchedule& of, const Span& span) const override {
    RotaryFrequencies made{.theta = of.theta};
    // Turns within a length are that length divided by the wavelength.
    for (double& theta : made.theta) {
      theta = ramp_by_wavelength(theta, options_.factor, train_length_, options_.low_freq_factor,
                                 options_.high_freq_factor);
    }
    return made;
  }

 private:
  Llama3Options options_;
  std::int64_t train_length_;
};

}  // namespace

EncodingEntry llama3_entry() {
  return extension<Llama3, Llama3Options>(
      {.name = "llama3",
       .summary = "RoPE for longer texts: short wavelengths are unchanged, long ones are multiplied by the factor.",
       .reference = "Grattafiori et al. 2024 (Llama 3.1), arXiv:2407.21783",
       .family = Family::kExtension,
       .acts_on = "q and k",
       .formula = "ntk_parts with alpha = low_freq_factor, beta = high_freq_factor, by wavelengths λ_c = 2π/θ_c "
                  "against L",
       .known_for = "The extension of Llama 3.1: from 8,192 to 131,072 tokens with factor 8 and further training."});
}

}  // namespace pe::encodings
