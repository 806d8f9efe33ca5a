/// @file
/// Base of all encodings that are added to token embeddings: x + scale · PE(position).
#pragma once

#include <string>

#include "encodings/attention/positional_encoding.h"
#include "support/config.h"

namespace pe::encodings {

/// A token embedding starts with a standard deviation of 0.02, a sinusoid has an RMS of 0.71: unless the scales are
/// made alike, a comparison between absolute encodings compares their scales.
struct AbsoluteOptions {
  std::string pe_scale = "1";  ///< a number, "learned" (starts at 1/√d_m) or "matched" (RMS of a token embedding)
  void describe(support::FieldVisitor& v);
};

class AbsoluteEncoding : public PositionalEncoding {
 public:
  Facts facts() const override {
    return {.shift_invariant = ShiftInvariance::kNever, .learned = learned_scale_.defined()};
  }
  Traits traits(const Span& span) const override { return {.adds_to_tokens = true}; }
  bool needs_causal_mask() const override { return false; }
  Tensor add_to_tokens(LayerContext& context, const Tensor& x) final;

 protected:
  AbsoluteEncoding(const std::string& kind, const Shape& shape, const AbsoluteOptions& options);

  /// PE of the last T rows' positions, unscaled: [T,d_m] or [B,T,d_m], at least float32.
  virtual Tensor embed(const LayerContext& context, const Tensor& positions) = 0;
  /// Root mean square of an entry of PE at the start, for `matched`.
  virtual double root_mean_square() const = 0;

 private:
  AbsoluteOptions options_;
  Tensor learned_scale_;
};

}  // namespace pe::encodings
