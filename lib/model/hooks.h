/// @file
/// Hooks into a forward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "encodings/attention/attend.h"

namespace pe::model {

using at::Tensor;

/// Called by a forward pass, for probes. Members that are empty are not called; tensors are valid during the call.
struct Hooks {
  /// Place 0: the input of the first block; place i + 1: the output of block i. x [B, T, d_m].
  std::function<void(std::int64_t place, const Tensor& x)> residual;
  /// q, k and v of a layer before the encoding acts on them.
  std::function<void(std::int64_t layer, const encodings::Heads& heads)> heads;
  /// Attention of a layer, a range of query rows at a time and in order, by the definition of the encoding. No
  /// gradients.
  std::function<void(std::int64_t layer, const encodings::AttentionRows& seen)> rows;
};

}  // namespace pe::model
