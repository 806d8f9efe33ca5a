/// @file
/// Cosines and sines of position times frequency. Frequencies and angles are float64 always; tables are cast last.
#pragma once

#include <vector>

#include "encodings/positional_encoding.h"

namespace pe::encodings {

/// base^(−2i/width), i = 0 .. width/2 − 1, radians a token.
std::vector<double> geometric_frequencies(double base, std::int64_t width);

class AngleTable {
 public:
  /// @param factor multiplies cosines and sines.
  explicit AngleTable(std::vector<double> frequencies, double factor = 1);

  struct Values {
    Tensor cos, sin;   ///< [rows, n] or [B, rows, n]
  };
  /// For the key rows begin .. begin + count − 1 of a pass, in table_type(type). Runs of positions come from a table
  /// that is kept.
  Values operator()(const LayerContext& context, std::int64_t begin, std::int64_t count, at::ScalarType type);

  const std::vector<double>& frequencies() const { return frequencies_; }
  double factor() const { return factor_; }

 private:
  Values compute(const Tensor& positions, at::ScalarType type) const;

  std::vector<double> frequencies_;
  double factor_;
  Values cache_;   // positions 0, 1, 2, …
};

}  // namespace pe::encodings
