/// @file
/// Plain causal attention of as many queries as keys: no bias, no sink, one document. LibTorch's kernels, ours and
/// cuDNN's compute it, and the build's record chooses among them.
#pragma once

#include <ATen/core/Tensor.h>

#include "cuda/plugin.h"

namespace pe::encodings {

/// q [B,H,T,d_h], k and v [B,G,T,d_h]; logits are scale·q·k.
struct PlainHeads {
  at::Tensor q, k, v;
  double scale = 1;
};

/// By the plug-in's record (lib/cuda/recorded_attention.inc); LibTorch's route without a record or a plug-in.
PeCudaAttentionChoice plain_choice(const PlainHeads& heads);

/// [B,H,T,d_h] by one of the routes, with gradients. Routes other than LibTorch's need the plug-in and bf16.
/// @throws Error (kExitDevice) where cuDNN fails.
at::Tensor attend_plain(const PlainHeads& heads, const PeCudaAttentionChoice& by);

/// As the plug-in's functions of plain attention take it. Output and gradients, which are not made yet, have the
/// strides that `attend_plain` gives them.
PeCudaAttention plain_shape(const PlainHeads& heads);

}  // namespace pe::encodings
