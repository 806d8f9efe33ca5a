// NTK-aware scaling: a larger base, chosen so that the slowest pair is slowed by the whole factor and the fastest
// stays.
#include "encodings/rotary/rescaling.h"

namespace pe::encodings {
namespace {

class Ntk : public Rescaling {
 public:
  Ntk(const ExtensionOptions& options, const Shape& shape) : factor_(options.factor) {}

  RotaryFrequencies rescale(const FrequencySchedule& of, const Span& span) const override {
    RotaryFrequencies made{.theta = of.theta};
    for (std::size_t i = 0; i < made.theta.size(); ++i) made.theta[i] /= ntk_divisor(factor_, i, of.width);
    return made;
  }

 private:
  double factor_;
};

}  // namespace

EncodingEntry ntk_entry() {
  return extension<Ntk, ExtensionOptions>(
      {.name = "ntk",
       .aliases = {"ntk_aware"},
       .summary = "RoPE for longer texts: a larger base, so that the slowest pair is slowed by the factor.",
       .reference = "Peng et al. 2023, arXiv:2309.00071, section 3.1",
       .family = Family::kExtension,
       .acts_on = "q and k",
       .formula = "θ'_c = θ_c·s^(−2c/(d_h − 2)), s = factor, which is a base of base·s^(d_h/(d_h − 2))",
       .known_for = "Keeps the fastest pair, slows the slowest by the factor, and works without fine-tuning. Pairs "
                    "between them slightly exceed their trained angles, so choose a factor above the ratio of "
                    "lengths."});
}

}  // namespace pe::encodings
