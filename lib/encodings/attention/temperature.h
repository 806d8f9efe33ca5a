/// @file
/// What all logit temperatures share: q is multiplied by a factor of its row and head, which fused kernels carry for
/// nothing. Biases beside a temperature are not scaled.
#pragma once

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

class Temperature : public PositionalEncoding {
 public:
  void transform(LayerContext& context, Heads& heads) final;

 protected:
  using PositionalEncoding::PositionalEncoding;

  /// What broadcasts to [B,H,T], or undefined: 1. At least float32.
  virtual Tensor factor(const LayerContext& context) = 0;
};

/// How many keys of its document each query sees, itself included: rows, not positions. [1,T] or [B,1,T], float64.
Tensor visible_counts(const LayerContext& context);

/// Mean of ln n over n = 1 .. length, which is ln(length!)/length.
double mean_log_count(std::int64_t length);

/// The rows of context.x that queries come from, [B,T,d_m], in table_type. @throws ShapeError where x is missing.
Tensor query_tokens(const LayerContext& context);

}  // namespace pe::encodings
