// NTK by parts: pairs that turn often within the training length stay, pairs that turn seldom are slowed by the factor.
#include "encodings/extension/wavelength_ramp.h"

namespace pe::encodings {
namespace {

struct NtkPartsOptions : ExtensionOptions {
  std::optional<std::int64_t> train_length;
  double alpha = 1;
  double beta = 32;
  void describe(support::FieldVisitor& v) {
    ExtensionOptions::describe(v);
    v.field("train_length", train_length, "Training length of the extended model; auto: from the model.",
            {.unit = "tokens", .min = 1});
    v.field("alpha", alpha, "Pairs with at most this many turns in the training length are slowed by the whole factor.",
            {.unit = "turns", .min = 0});
    v.field("beta", beta,
            "Pairs with at least this many turns in the training length are unchanged; below 2π·beta training tokens "
            "there are none.",
            {.unit = "turns", .min = 0});
    v.check(beta > alpha, "beta counts more turns than alpha");
  }
};

class NtkByParts : public Rescaling {
 public:
  NtkByParts(const NtkPartsOptions& options, const Shape& shape)
      : options_(options), train_length_(extended_length("ntk_parts", options.train_length, shape)) {}

  RotaryFrequencies rescale(const FrequencySchedule& of, const Span& span) const override {
    RotaryFrequencies made{.theta = of.theta};
    for (double& theta : made.theta)
      theta = ramp_by_wavelength(theta, options_.factor, train_length_, options_.alpha, options_.beta);
    return made;
  }

 private:
  NtkPartsOptions options_;
  std::int64_t train_length_;
};

}  // namespace

EncodingEntry ntk_parts_entry() {
  return extension<NtkByParts, NtkPartsOptions>(
      {.name = "ntk_parts",
       .aliases = {"ntk_by_parts"},
       .summary = "RoPE for longer texts: fast pairs stay, slow pairs are slowed further.",
       .reference = "Peng et al. 2023, arXiv:2309.00071, section 3.2",
       .family = Family::kExtension,
       .acts_on = "q and k",
       .formula = "θ'_c = (1 − γ_c)·θ_c/s + γ_c·θ_c, γ_c = clamp((r_c − alpha)/(beta − alpha), 0, 1), r_c = "
                  "L·θ_c/2π turns",
       .known_for = "The frequencies in the paper of YaRN, without the attention factor.",
       .errata = {"If the training length is below 2π·beta (about 201) tokens, no pair is unchanged; use a lower "
                  "beta."}});
}

}  // namespace pe::encodings
