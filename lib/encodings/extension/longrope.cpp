// LongRoPE: each pair has a separate divisor, found by a search; the first tokens keep their frequencies.
#include "encodings/extension/longrope.h"

#include <cmath>
#include <numbers>

#include "encodings/extension/resonance.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

/// A search never falls from pair to pair and never goes below 1; lists of published models do both.
constexpr double kLeastDivisor = 0.001;

/// LongRoPE2: pairs that never made a whole turn in training are slowed by the factor or more, the others by a base
/// that fits. Up to the training length the model is exactly the trained one.
class LongRope2Rule : public LongRopeRule {
 public:
  LongRope2Rule(const LongRopeOptions& options, const Shape& shape)
      : LongRopeRule(options, shape, LongRopeVersion::kTwo) {}
};

}  // namespace

using support::cat;
using support::ConfigError;

double longrope_attention_factor(double factor, std::int64_t train_length) {
  if (factor <= 1 || train_length < 2) return 1;
  return std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(train_length)));
}

std::int64_t critical_pair(const FrequencySchedule& of, std::int64_t train_length, double turns) {
  const double half = static_cast<double>(of.width) / 2;
  const double pair = std::ceil(half * std::log(static_cast<double>(train_length) / (2 * std::numbers::pi * turns)) /
                                std::log(of.base));
  return static_cast<std::int64_t>(std::clamp(pair, 0.0, half));
}

std::vector<double> critical_divisors(const FrequencySchedule& of, std::int64_t critical, double factor) {
  std::vector<double> divisors(of.theta.size(), factor);
  for (std::int64_t i = 0; i < std::min<std::int64_t>(critical, static_cast<std::int64_t>(divisors.size())); ++i) {
    divisors[i] = std::pow(factor, static_cast<double>(i) / static_cast<double>(critical));
  }
  return divisors;
}

void LongRopeOptions::describe(support::FieldVisitor& v) {
  ExtensionOptions::describe(v);
  v.field("train_length", train_length, "Training length of the extended model; auto: from the model.",
          {.unit = "tokens", .min = 1});
  v.field(
      "long_factors", long_factors,
      "Divisors of the frequencies beyond the training length, one per pair. An empty list means ntk's divisors, or "
      "for longrope2 those around its critical pair.",
      {.min = kLeastDivisor});
  v.field("short_factors", short_factors, "Divisors up to the training length; empty: all 1.", {.min = kLeastDivisor});
  v.field("protected", protected_positions, "Number of first positions with unchanged angles.",
          {.unit = "tokens", .min = 0});
  v.field("attention_factor", attention_factor, "Factor on cosines and sines; 0: √(1 + ln(factor)/ln(train_length)).",
          {.min = 0});
  v.field("pe_len", pe_len, "Length that selects the long or short divisors; auto: from the pass.",
          {.unit = "tokens", .min = 1});
}

LongRopeRule::LongRopeRule(const LongRopeOptions& options, const Shape& shape, LongRopeVersion version)
    : options_(options), version_(version), train_length_(1) {
  train_length_ = extended_length(kind(), options.train_length, shape);
  for (const std::vector<double>* divisors : {&options.long_factors, &options.short_factors}) {
    for (const double divisor : *divisors) {
      if (!(divisor >= kLeastDivisor))
        throw ConfigError(cat("encoding '", kind(), "': a divisor must be at least ", support::shortest(kLeastDivisor),
                              ", found ", support::shortest(divisor)));
    }
  }
}

bool LongRopeRule::length_dependent() const {
  const auto plain = [](const std::vector<double>& divisors) {
    return std::all_of(divisors.begin(), divisors.end(), [](double d) { return d == 1; });
  };
  if (options_.long_factors.empty()) return options_.factor > 1 || !plain(options_.short_factors);
  if (options_.short_factors.empty()) return !plain(options_.long_factors);
  return options_.long_factors != options_.short_factors;
}

std::int64_t LongRopeRule::key(const Span& span) const {
  return length_dependent() && working_length(kind(), options_.pe_len, span) > train_length_ ? 1 : 0;
}

RotaryFrequencies LongRopeRule::rescale(const FrequencySchedule& of, const Span& span) const {
  const bool beyond = key(span) == 1 || !length_dependent();
  std::vector<double> divisors = beyond ? options_.long_factors : options_.short_factors;
  const std::size_t pairs = of.theta.size();
  if (divisors.empty() && beyond && version_ == LongRopeVersion::kTwo) {
    divisors = critical_divisors(of, critical_pair(of, train_length_, 1), options_.factor);
  } else if (divisors.empty()) {
    for (std::size_t i = 0; i < pairs; ++i) divisors.push_back(beyond ? ntk_divisor(options_.factor, i, of.width) : 1);
  }
  if (divisors.size() != pairs) {
    throw ConfigError(cat("encoding '", kind(), "': ", beyond ? "long" : "short", "_factors holds ", divisors.size(),
                          " numbers, and a head has ", pairs, " pairs"),
                      {}, "give one divisor for each pair");
  }
  RotaryFrequencies made{.theta = of.theta};
  for (std::size_t i = 0; i < pairs; ++i) made.theta[i] /= divisors[i];
  if (version_ == LongRopeVersion::kTwo && !beyond) return made;
  made.attention_factor = options_.attention_factor > 0 ? options_.attention_factor
                                                        : longrope_attention_factor(options_.factor, train_length_);
  made.protected_positions = options_.protected_positions;
  made.protected_theta = of.theta;
  return made;
}

EncodingEntry longrope_entry() {
  return extension<LongRopeRule, LongRopeOptions>(
      {.name = "longrope",
       .summary = "RoPE for longer texts: each pair slowed by a searched number, the first tokens unchanged.",
       .reference = "Ding et al. 2024, arXiv:2402.13753",
       .family = Family::kExtension,
       .acts_on = "q and k, logits",
       .formula = "p·θ_c for p < protected, p·θ_c/λ_c else, λ = long_factors beyond L and short_factors up to L\n"
                  "logits × a², a = √(1 + ln s/ln L)",
       .known_for = "An evolutionary search on perplexity finds a divisor for each pair; used by the Phi-3 models. "
                    "Without a list the divisors are the same as in ntk.",
       .errata = {"The released search ignores the protected positions and the attention factor, and its parent "
                  "selection keeps the wrong list.",
                  "The attention factor applies to short texts too, as in released models; longrope2 leaves short "
                  "texts unscaled."}});
}

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

/// LongRoPE's frequencies, then wavelengths rounded to whole tokens.
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
