/// @file
/// Base of all logit temperatures: q is multiplied by a factor of its row and head, which costs fused kernels nothing.
/// Biases in the same stack are not scaled.
#pragma once

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

class Temperature : public PositionalEncoding {
 public:
  void transform(LayerContext& context, Heads& heads) final;
  Traits traits(const Span&) const final { return {.scales_queries = true}; }

 protected:
  using PositionalEncoding::PositionalEncoding;

  /// A tensor that broadcasts to [B,H,T], at least float32; undefined: 1.
  virtual Tensor factor(const LayerContext& context) = 0;
};

/// How many keys of its document each query sees, itself included: rows, not positions. [1,T] or [B,1,T], float64.
Tensor visible_counts(const LayerContext& context);

/// Mean of ln n over n = 1 .. length, which is ln(length!)/length.
double mean_log_count(std::int64_t length);

/// The rows of context.x that queries come from, [B,T,d_m], in table_type. @throws ShapeError where x is missing.
Tensor query_tokens(const LayerContext& context);

}  // namespace pe::encodings
