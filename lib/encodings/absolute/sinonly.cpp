// Sinusoids without their cosines: what is lost when no linear map takes a position to its neighbour.
#include "encodings/absolute/absolute.h"
#include "encodings/registry.h"
#include "encodings/rotary/rotary_cache.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

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
