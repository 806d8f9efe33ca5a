/// @file
/// Cosines and sines of position times frequency. Frequencies and angles are float64 always; tables are cast last.
#pragma once

#include <vector>

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

/// base^(−2i/width), i = 0 .. width/2 − 1, radians a token.
std::vector<double> geometric_frequencies(double base, std::int64_t width);

struct RotaryFrequencies {
  std::vector<double> theta;    ///< Radians per token, one per pair.
  double attention_factor = 1;  ///< Factor of cos and sin, so that logits are multiplied by its square.
  /// Tokens after which a pair is back where it began, and its table repeats bit for bit; 0: never. Empty: none does.
  std::vector<double> periods;
  /// Positions below it use `protected_theta`, with an attention factor of 1.
  std::int64_t protected_positions = 0;
  std::vector<double> protected_theta;
};

class RotaryCache {
 public:
  /// @param factor multiplies cosines and sines.
  explicit RotaryCache(std::vector<double> frequencies, double factor = 1);
  explicit RotaryCache(RotaryFrequencies rule);

  struct Values {
    Tensor cos, sin;  ///< [rows, n] or [B, rows, n]
  };
  /// For the key rows begin .. begin + count − 1 of a pass, in table_type(type). Runs of positions come from a table
  /// that is kept.
  Values operator()(const LayerContext& context, std::int64_t begin, std::int64_t count, at::ScalarType type);

  const std::vector<double>& frequencies() const { return rule_.theta; }
  double factor() const { return rule_.attention_factor; }

 private:
  Values compute(const Tensor& positions, at::ScalarType type) const;

  RotaryFrequencies rule_;
  Values cache_;  // positions 0, 1, 2, …
};

}  // namespace pe::encodings
