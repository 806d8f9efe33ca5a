/// @file
/// Rotary encodings whose angles are sums over the tokens: each token says by how much it turns all that follow.
#pragma once

#include "encodings/attention/positional_encoding.h"
#include "encodings/rotary/rotary.h"

namespace pe::encodings {

class AccumulatedRotation : public PositionalEncoding {
 public:
  /// @param values turns values too, and the output back. @throws ConfigError for an odd head width.
  AccumulatedRotation(const std::string& kind, const Shape& shape, PairLayout layout, bool values = false);

  void transform(LayerContext& context, Heads& heads) final;
  Tensor finish(LayerContext& context, const Tensor& out, const Tensor& extra) final;

 protected:
  /// [B or 1, G, S, d_h/2], radians, at least float32.
  virtual Tensor angles(const LayerContext& context) = 0;
  /// x of the layer in the dtype of the parameters. @throws ShapeError where it is missing.
  Tensor tokens(const LayerContext& context) const;
  /// [B,S,G·n] → [B,G,S,n]
  Tensor by_group(const Tensor& t) const { return t.unflatten(-1, {shape_.key_value_heads, -1}).transpose(1, 2); }

  std::string kind_;

 private:
  PairLayout layout_;
  bool values_;
};

}  // namespace pe::encodings
