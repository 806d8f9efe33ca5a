// YaRN: slow pairs of RoPE are slowed further by the factor, fast ones are left alone, a ramp lies between; logits are
// sharpened by the square of the attention factor.
#include <numbers>

#include "encodings/registry.h"
#include "encodings/rotary.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

// `index` is the released code's rule, linear in the pair's index; `rotations` the paper's, linear in turns.
enum class Ramp { kIndex, kRotations };

struct YarnOptions : RotaryOptions {
  double factor = 1;
  std::optional<std::int64_t> train_length;
  double beta_fast = 32;
  double beta_slow = 1;
  Ramp ramp = Ramp::kIndex;
  bool truncate = true;
  double attention_factor = 0;
  double mscale = 0;
  double mscale_all_dim = 0;
  bool dynamic = false;
  std::optional<std::int64_t> pe_len;

  void describe(support::FieldVisitor& v) {
    RotaryOptions::describe(v);
    v.field("factor", factor, "Length to reach divided by the training length; 1 is plain rope.", {.min = 1});
    v.field("train_length", train_length, "Length of the training that is extended; auto: the model's.",
            {.unit = "tokens", .min = 1});
    v.field("beta_fast", beta_fast, "Pairs that turn at least as often in the training length stay.", {.min = 0});
    v.field("beta_slow", beta_slow, "Pairs that turn at most as often are slowed by the whole factor.", {.min = 0});
    v.choice("ramp", ramp, {{"index", Ramp::kIndex}, {"rotations", Ramp::kRotations}},
             "Between the two: linear in the pair's index (released code) or in its turns (paper).");
    v.field("truncate", truncate, "Round the ends of an index ramp to whole pairs.");
    v.field("attention_factor", attention_factor, "On cosines and sines; 0: 0.1·ln(factor) + 1.", {.min = 0});
    v.field("mscale", mscale, "With mscale_all_dim: attention factor g(mscale)/g(mscale_all_dim), g(x) = "
                              "0.1·x·ln(factor) + 1; 0: not used.", {.min = 0});
    v.field("mscale_all_dim", mscale_all_dim, "See mscale.", {.min = 0});
    v.field("dynamic", dynamic, "Take the factor from the length in hand, at least 1.");
    v.field("pe_len", pe_len, "The length that a dynamic factor is taken from; auto: the one of the pass.",
            {.unit = "tokens", .min = 1});
    v.check(beta_fast > beta_slow, "beta_fast counts more turns than beta_slow");
  }
};

class Yarn : public Rotary {
 public:
  Yarn(const YarnOptions& options, const Shape& shape)
      : Rotary("yarn", shape, options),
        yarn_(options),
        train_length_(options.train_length.value_or(shape.train_length)) {
    if (train_length_ < 1)
      throw support::ConfigError("encoding 'yarn' needs train_length, the length that is extended");
  }

  Facts facts() const override { return {.rotates = true, .length_dependent = yarn_.dynamic}; }

  RotaryFrequencies frequencies(const Span& span) const override {
    const double s = factor(span);
    RotaryFrequencies made{.theta = geometric_frequencies(yarn_.base, shape_.head_width),
                           .attention_factor = attention_factor(s)};
    if (s == 1) return made;
    for (std::size_t i = 0; i < made.theta.size(); ++i) {
      const double slowed =
          yarn_.ramp == Ramp::kIndex ? index_ramp(static_cast<double>(i)) : rotations_ramp(made.theta[i]);
      made.theta[i] = slowed * made.theta[i] / s + (1 - slowed) * made.theta[i];
    }
    return made;
  }

 protected:
  std::int64_t frequency_key(const Span& span) const override { return yarn_.dynamic ? length(span) : 0; }

 private:
  std::int64_t length(const Span& span) const {
    if (span.pe_len) return *span.pe_len;
    if (yarn_.pe_len) return *yarn_.pe_len;
    throw support::ConfigError("encoding 'yarn' with dynamic: true needs pe_len, the length that it works at");
  }

  double factor(const Span& span) const {
    if (!yarn_.dynamic) return yarn_.factor;
    return std::max(1.0, static_cast<double>(length(span)) / static_cast<double>(train_length_));
  }

  double attention_factor(double s) const {
    if (s <= 1) return 1;
    if (yarn_.attention_factor > 0) return yarn_.attention_factor;
    const auto g = [&](double x) { return 0.1 * x * std::log(s) + 1; };
    if (yarn_.mscale > 0 && yarn_.mscale_all_dim > 0) return g(yarn_.mscale) / g(yarn_.mscale_all_dim);
    return g(1);
  }

  /// The fractional index of the pair that makes `turns` turns in the training length.
  double pair_with_turns(double turns) const {
    const double d = static_cast<double>(shape_.head_width);
    return d * std::log(static_cast<double>(train_length_) / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(yarn_.base));
  }

  double index_ramp(double i) const {
    double low = pair_with_turns(yarn_.beta_fast), high = pair_with_turns(yarn_.beta_slow);
    if (yarn_.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(shape_.head_width - 1));   // d − 1, not d/2 − 1, as released
    if (low == high) high += 0.001;
    return std::clamp((i - low) / (high - low), 0.0, 1.0);
  }

  double rotations_ramp(double theta) const {
    const double turns = static_cast<double>(train_length_) * theta / (2 * std::numbers::pi);
    return 1 - std::clamp((turns - yarn_.beta_slow) / (yarn_.beta_fast - yarn_.beta_slow), 0.0, 1.0);
  }

  YarnOptions yarn_;
  std::int64_t train_length_;
};

}  // namespace

EncodingEntry yarn_entry() {
  return with_options<Yarn, YarnOptions>(
      {.name = "yarn",
       .summary = "RoPE for longer texts: slow pairs slowed, fast ones kept, logits "
                  "sharpened.",
       .reference = "Peng et al. 2023, arXiv:2309.00071",
       .facts = {.rotates = true},
       .family = Family::kExtension,
       .acts_on = "q and k, logits",
       .formula = "θ'_c = ramp_c·θ_c/s + (1 − ramp_c)·θ_c, s = factor\n"
                  "ramp: index (released code): linear in c between the pairs that turn beta_fast and beta_slow times "
                  "in L, floor and ceiling taken, clamped to [0, 1]\n"
                  "ramp: rotations (paper): linear in the turns L·θ_c/2π between beta_slow and beta_fast\n"
                  "logits × a², a = 0.1·ln s + 1",
       .known_for = "The usual way to lengthen the context of a rotary model, with little or no further training: "
                    "fast pairs keep local order, slow ones are interpolated, and sharper logits hold entropy down. s "
                    "= 1 is rope.",
       .errata = {"The paper's ramp is linear in turns, its code's in the index of the pair; they differ by up to a "
                  "factor of two in a frequency. `ramp` has both; the released models need index.",
                  "All code clamps the upper end of the ramp to d_h − 1 rather than to the last pair, d_h/2 − 1; so "
                  "does `ramp: index`.",
                  "The DroPE paper's equations for YaRN have slips in their indices."}});
}

}  // namespace pe::encodings
