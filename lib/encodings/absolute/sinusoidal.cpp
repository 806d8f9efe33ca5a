// Sinusoids of the position, added to the token embeddings, with cosines and without.
#include "encodings/absolute/absolute.h"
#include "encodings/registry.h"
#include "encodings/rotary/rotary_cache.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

enum class SineLayout { kInterleaved, kConcatenated };

struct SinusoidalOptions : AbsoluteOptions {
  double base = 10000;
  SineLayout layout = SineLayout::kInterleaved;
  void describe(support::FieldVisitor& v) {
    v.field("base", base, "Wavelengths grow from 2π to 2π·base tokens.", {.min = 1});
    v.choice("layout", layout, {{"interleaved", SineLayout::kInterleaved}, {"concatenated", SineLayout::kConcatenated}},
             "sin, cos, sin, cos, … (paper), or all sines before all cosines.");
    AbsoluteOptions::describe(v);
  }
};

/// Sines and cosines of geometrically spaced wavelengths, added to the token embeddings.
class Sinusoidal : public AbsoluteEncoding {
 public:
  Sinusoidal(const SinusoidalOptions& options, const Shape& shape)
      : AbsoluteEncoding("sinusoidal", shape, options),
        layout_(options.layout),
        angles_(geometric_frequencies(options.base, even(shape.width))) {}

 protected:
  Tensor embed(const LayerContext& context, const Tensor& positions) override {
    const Span& span = context.span;
    const RotaryCache::Values values = angles_(context, span.keys - span.queries, span.queries, shape_.dtype);
    if (layout_ == SineLayout::kConcatenated) return at::cat({values.sin, values.cos}, -1);
    return at::stack({values.sin, values.cos}, -1).flatten(-2);
  }
  double root_mean_square() const override { return std::sqrt(0.5); }  // sin² + cos² = 1 for each pair

 private:
  static std::int64_t even(std::int64_t width) {
    if (width % 2 == 0 && width > 0) return width;
    throw support::ConfigError(
        support::cat("encoding 'sinusoidal' fills pairs of channels, and the width ", width, " is not even"));
  }

  SineLayout layout_;
  RotaryCache angles_;
};

// Adjacent frequencies of `full` are so close in a wide model that differences of neighbouring channels are nearly
// cosines; the other two have no such substitute.
enum class SineMode { kFull, kDuplicated, kZeros };

struct SinOnlyOptions : AbsoluteOptions {
  double base = 10000;
  SineMode mode = SineMode::kFull;
  void describe(support::FieldVisitor& v) {
    v.field("base", base, "Wavelengths grow from 2π to 2π·base tokens.", {.min = 1});
    v.choice("mode", mode, {{"full", SineMode::kFull}, {"dup", SineMode::kDuplicated}, {"zeros", SineMode::kZeros}},
             "A frequency for each channel, each of half as many twice, or each of these with a zero.");
    AbsoluteOptions::describe(v);
  }
};

/// Sinusoids without their cosines, to show the loss when no linear map takes a position to its neighbour.
class SinOnly : public AbsoluteEncoding {
 public:
  SinOnly(const SinOnlyOptions& options, const Shape& shape)
      : AbsoluteEncoding("sinonly", shape, options),
        mode_(options.mode),
        angles_(geometric_frequencies(options.base, scheduled_width(options.mode, shape.width))) {}

 protected:
  Tensor embed(const LayerContext& context, const Tensor& positions) override {
    const Span& span = context.span;
    const Tensor sin = angles_(context, span.keys - span.queries, span.queries, shape_.dtype).sin;
    if (mode_ == SineMode::kFull) return sin;
    return at::stack({sin, mode_ == SineMode::kDuplicated ? sin : at::zeros_like(sin)}, -1).flatten(-2);
  }
  double root_mean_square() const override { return mode_ == SineMode::kZeros ? 0.5 : std::sqrt(0.5); }

 private:
  /// base^(−j/d_m) for d_m channels is the schedule of a width of 2·d_m.
  static std::int64_t scheduled_width(SineMode mode, std::int64_t width) {
    if (mode == SineMode::kFull) return 2 * width;
    if (width % 2 == 0) return width;
    throw support::ConfigError(support::cat(
        "encoding 'sinonly' fills pairs of channels unless its mode is full, and the width ", width, " is not even"));
  }

  SineMode mode_;
  RotaryCache angles_;
};

}  // namespace

EncodingEntry sinusoidal_entry() {
  return with_options<Sinusoidal, SinusoidalOptions>(
      {.name = "sinusoidal",
       .aliases = {"vaswani", "ape_sin"},
       .summary = "Adds sines and cosines of geometrically spaced wavelengths to the token embeddings.",
       .reference = "Vaswani et al. 2017, arXiv:1706.03762",
       .facts = {.shift_invariant = ShiftInvariance::kNever},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .formula = "x_p += scale·PE(p)\n"
                  "PE(p)[2c] = sin(p·θ_c), PE(p)[2c+1] = cos(p·θ_c)\n"
                  "θ_c = base^(−2c/d_m), c = 0 .. d_m/2 − 1",
       .known_for = "The encoding of the original transformer. It has no parameters and every position is defined, but "
                    "perplexity rises fast beyond the training length.",
       .errata = {"Unscaled (root mean square 0.71) it hides token embeddings of standard deviation 0.02. "
                  "Comparisons with 'learned' often compare scales; `pe_scale: matched` removes that.",
                  "Code bases disagree on the order of channels: interleaved in the paper, all sines first in many "
                  "copies. Training is equal, but weights of one do not fit the other; see `layout`."}});
}

EncodingEntry sinonly_entry() {
  return with_options<SinOnly, SinOnlyOptions>(
      {.name = "sinonly",
       .summary = "Adds sines of geometrically spaced wavelengths, without cosines, to the token embeddings.",
       .reference = "defined by this project",
       .facts = {.shift_invariant = ShiftInvariance::kNever},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .formula = "x_p += scale·PE(p)\n"
                  "full: PE(p)[j] = sin(p·base^(−j/d_m)), j = 0 .. d_m − 1\n"
                  "dup: PE(p)[2c] = PE(p)[2c+1] = sin(p·θ_c), θ_c = base^(−2c/d_m)\n"
                  "zeros: PE(p)[2c] = sin(p·θ_c), PE(p)[2c+1] = 0",
       .known_for = "An ablation of the sinusoid: without cosines no linear map takes PE(p) to PE(p + k). In a wide "
                    "model with `mode: full`, differences of neighbouring channels are nearly cosines, so `dup` and "
                    "`zeros` are the clean forms. Position 0 carries no signal."});
}

}  // namespace pe::encodings
