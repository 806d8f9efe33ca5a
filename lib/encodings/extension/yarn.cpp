// YaRN: slow pairs of RoPE are slowed further by the factor, fast ones are not changed, with a ramp between them.
// Logits are sharpened by the square of the attention factor.
#include "encodings/extension/yarn.h"

#include "encodings/extension/resonance.h"
#include "encodings/extension/wavelength_ramp.h"

namespace pe::encodings {
namespace {

/// How far pair i is slowed, 0 to 1.
class IndexRamp {
 public:
  IndexRamp(const YarnOptions& options, const FrequencySchedule& of, std::int64_t train_length) {
    // The fractional index of the pair that makes so many turns in the training length.
    const auto pair_with_turns = [&](double turns) {
      return static_cast<double>(of.width) *
             std::log(static_cast<double>(train_length) / (turns * 2 * std::numbers::pi)) / (2 * std::log(of.base));
    };
    low_ = pair_with_turns(options.beta_fast);
    high_ = pair_with_turns(options.beta_slow);
    if (options.truncate) {
      low_ = std::floor(low_);
      high_ = std::ceil(high_);
    }
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, static_cast<double>(of.width - 1));  // d − 1, not d/2 − 1, as released
    if (low_ == high_) high_ += 0.001;
  }
  double operator()(std::size_t i) const {
    return std::clamp((static_cast<double>(i) - low_) / (high_ - low_), 0.0, 1.0);
  }

 private:
  double low_, high_;
};

}  // namespace

void YarnOptions::describe(support::FieldVisitor& v) {
  ExtensionOptions::describe(v);
  v.field("train_length", train_length, "Training length of the extended model; auto: from the model.",
          {.unit = "tokens", .min = 1});
  v.field("beta_fast", beta_fast, "Pairs with at least this many turns in the training length are unchanged.",
          {.min = 0});
  v.field("beta_slow", beta_slow,
          "Pairs with at most this many turns in the training length are slowed by the whole factor.", {.min = 0});
  v.choice("ramp", ramp, {{"index", YarnRamp::kIndex}, {"rotations", YarnRamp::kRotations}},
           "Ramp between the two: linear in the index of the pair (released code) or in its turns (paper).");
  v.field("truncate", truncate, "Round the ends of an index ramp to whole pairs.");
  v.field("attention_factor", attention_factor, "Factor on cosines and sines; 0: 0.1·ln(factor) + 1.", {.min = 0});
  v.field("mscale", mscale,
          "With mscale_all_dim, the attention factor is g(mscale)/g(mscale_all_dim), where g(x) = 0.1·x·ln(factor) + "
          "1; 0: not used.",
          {.min = 0});
  v.field("mscale_all_dim", mscale_all_dim, "See mscale.", {.min = 0});
  v.field("dynamic", dynamic, "Compute the factor from the length of the text, at least 1.");
  v.field("pe_len", pe_len, "Length for the dynamic factor; auto: from the pass.", {.unit = "tokens", .min = 1});
  v.check(!dynamic || factor == 1, "with dynamic: true the factor follows from the length");
  v.check(beta_fast > beta_slow, "beta_fast counts more turns than beta_slow");
}

YarnRule::YarnRule(const YarnOptions& options, const Shape& shape)
    : options_(options), train_length_(extended_length("yarn", options.train_length, shape)) {}

std::int64_t YarnRule::key(const Span& span) const {
  return options_.dynamic ? working_length("yarn", options_.pe_len, span) : 0;
}

RotaryFrequencies YarnRule::rescale(const FrequencySchedule& of, const Span& span) const {
  const double s = options_.dynamic ? std::max(1.0, static_cast<double>(key(span)) / static_cast<double>(train_length_))
                                    : options_.factor;
  RotaryFrequencies made{.theta = of.theta, .attention_factor = attention_factor(s)};
  if (s == 1) return made;
  const IndexRamp ramp(options_, of, train_length_);
  for (std::size_t i = 0; i < made.theta.size(); ++i) {
    if (options_.ramp == YarnRamp::kIndex) {
      made.theta[i] = ramp(i) * of.theta[i] / s + (1 - ramp(i)) * of.theta[i];
    } else {
      made.theta[i] = ramp_by_wavelength(of.theta[i], s, train_length_, options_.beta_slow, options_.beta_fast);
    }
  }
  return made;
}

double YarnRule::attention_factor(double s) const {
  if (s <= 1) return 1;
  if (options_.attention_factor > 0) return options_.attention_factor;
  const auto g = [&](double x) { return 0.1 * x * std::log(s) + 1; };
  if (options_.mscale > 0 && options_.mscale_all_dim > 0) return g(options_.mscale) / g(options_.mscale_all_dim);
  return g(1);
}

RotaryFrequencies yarn_frequencies(const FrequencySchedule& of, double factor, std::int64_t train_length) {
  YarnOptions options;
  options.factor = factor;
  return YarnRule(options, {.train_length = train_length}).rescale(of, {});
}

EncodingEntry yarn_entry() {
  return extension<YarnRule, YarnOptions>(
      {.name = "yarn",
       .summary = "RoPE for longer texts: slow pairs are slowed, fast pairs are unchanged, logits are sharpened.",
       .reference = "Peng et al. 2023, arXiv:2309.00071",
       .family = Family::kExtension,
       .acts_on = "q and k, logits",
       .formula = "θ'_c = ramp_c·θ_c/s + (1 − ramp_c)·θ_c, s = factor\n"
                  "ramp: index (released code): linear in c between the pairs that turn beta_fast and beta_slow times "
                  "in L, floor and ceiling taken, clamped to [0, 1]\n"
                  "ramp: rotations (paper): linear in the turns L·θ_c/2π between beta_slow and beta_fast\n"
                  "logits × a², a = 0.1·ln s + 1",
       .known_for = "The usual way to lengthen the context of a rotary model, with little or no further training. "
                    "Fast pairs keep local order, slow pairs are interpolated, and sharper logits hold entropy "
                    "down. s = 1 is rope.",
       .errata = {"The ramp is linear in turns in the paper, and linear in the index of the pair in the code. "
                  "Frequencies differ by up to a factor of two. `ramp` has both; released models need `index`.",
                  "Published code clamps the upper end of the ramp to d_h − 1, not to the last pair, d_h/2 − 1; `ramp: "
                  "index` does the same.",
                  "The equations for YaRN in the DroPE paper have wrong indices."}});
}

/// YaRN's frequencies and attention factor, then wavelengths rounded to whole tokens.
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
