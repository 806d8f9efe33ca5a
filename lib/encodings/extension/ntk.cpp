// NTK-aware scaling of the base: fixed, by parts of the wavelengths, and by the length of the text.
#include "encodings/extension/wavelength_ramp.h"
#include "encodings/rotary/rescaling.h"

namespace pe::encodings {
namespace {

/// NTK-aware scaling: a larger base, chosen so that the slowest pair is slowed by the whole factor and the fastest
/// stays.
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

/// NTK by parts: pairs that rotate often within the training length stay, pairs that rotate seldom are slowed by the
/// factor.
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

struct DynamicNtkOptions : ExtensionOptions {
  std::optional<std::int64_t> train_length;
  std::optional<std::int64_t> pe_len;
  void describe(support::FieldVisitor& v) {
    ExtensionOptions::describe(v);
    v.field("train_length", train_length, "Training length of the extended model; auto: from the model.",
            {.unit = "tokens", .min = 1});
    v.field("pe_len", pe_len, "Length of the text; auto: from the pass.", {.unit = "tokens", .min = 1});
  }
};

/// Dynamic NTK: NTK-aware scaling whose factor follows the current length; up to the training length it is plain RoPE.
class DynamicNtk : public Rescaling {
 public:
  DynamicNtk(const DynamicNtkOptions& options, const Shape& shape)
      : options_(options), train_length_(extended_length("dyn_ntk", options.train_length, shape)) {}

  RotaryFrequencies rescale(const FrequencySchedule& of, const Span& span) const override {
    RotaryFrequencies made{.theta = of.theta};
    const std::int64_t length = key(span);
    if (length <= train_length_) return made;
    const double s = options_.factor;
    const double stretch = s * static_cast<double>(length) / static_cast<double>(train_length_) - (s - 1);
    for (std::size_t i = 0; i < made.theta.size(); ++i) made.theta[i] /= ntk_divisor(stretch, i, of.width);
    return made;
  }
  std::int64_t key(const Span& span) const override { return working_length("dyn_ntk", options_.pe_len, span); }
  bool length_dependent() const override { return true; }

 private:
  DynamicNtkOptions options_;
  std::int64_t train_length_;
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

EncodingEntry dyn_ntk_entry() {
  return extension<DynamicNtk, DynamicNtkOptions>(
      {.name = "dyn_ntk",
       .aliases = {"dynamic_ntk"},
       .summary = "RoPE for longer texts: the base grows with the length of the text.",
       .reference = "emozilla 2023, as in Peng et al. 2023, arXiv:2309.00071, section 3.3",
       .facts = {.length_dependent = true},
       .family = Family::kExtension,
       .acts_on = "q and k",
       .formula = "ntk with the factor s·l/L − (s − 1) for l = pe_len > L, rope up to L",
       .known_for = "No loss within the training length, and no factor to choose. The length of a text changes the "
                    "frequencies of all its positions, so losses of prefixes change and cached keys are invalid.",
       .errata = {"Code that infers the length from one chunk silently changes the encoding in chunked evaluations; "
                  "here `pe_len` sets the length."}});
}

}  // namespace pe::encodings
