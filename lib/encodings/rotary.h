/// @file
/// What all rotary encodings share: given frequencies and an attention factor, turn the pairs of q and k. A member of
/// the family is a rule that makes frequencies:
///
///     class Linear : public Rotary {
///       RotaryFrequencies frequencies(const Span&) const override { … θ / s … }
///     };
#pragma once

#include <map>
#include <string>

#include "encodings/angles.h"
#include "encodings/positional_encoding.h"
#include "support/config.h"

namespace pe::encodings {

/// Which channels form pair i of a head of width d: half: (i, i + d/2); interleaved: (2i, 2i + 1).
enum class PairLayout { kHalf, kInterleaved };

/// Turns the first 2n channels of x by angles whose cosines and sines are given; the others stay.
/// @param x [B,H,T,d_h]. @param cos, sin [T,n] or [B,T,n]. @return dtype and shape of x; computed in the dtype of the
/// tables. Gradients flow to x, and to cos and sin where these ask for them.
Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, PairLayout layout);

struct RotaryFrequencies {
  std::vector<double> theta;      ///< radians a token, one per pair
  double attention_factor = 1;    ///< on cos and sin, so that logits are multiplied by its square
};

/// Options that every member has.
struct RotaryOptions {
  double base = 10000;
  PairLayout layout = PairLayout::kHalf;
  void describe(support::FieldVisitor& v);
};

class Rotary : public PositionalEncoding {
 public:
  /// @throws ConfigError for an odd head width.
  Rotary(const std::string& kind, const Shape& shape, const RotaryOptions& options);

  Facts facts() const override { return {.rotates = true}; }
  void transform(LayerContext& context, Heads& heads) override;

  /// The rule. Called again whenever `frequency_key` changes.
  virtual RotaryFrequencies frequencies(const Span& span) const;

 protected:
  /// What of the span the frequencies depend on: 0 for fixed ones, the length for dynamic ones.
  virtual std::int64_t frequency_key(const Span& span) const { return 0; }

  std::string kind_;
  RotaryOptions options_;

 private:
  AngleTable& table(const Span& span);

  std::map<std::int64_t, AngleTable> tables_;
};

}  // namespace pe::encodings
