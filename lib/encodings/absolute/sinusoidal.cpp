// Sines and cosines of geometrically spaced wavelengths, added to the token embeddings.
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

}  // namespace pe::encodings
