/// @file
/// Reading a few logits many times, as the encodings do that count or classify keys.
#pragma once

#include <ATen/core/Tensor.h>

namespace pe::encodings {

/// z.gather(-1, index), whose gradient is summed in one order on every device. LibTorch's own on CUDA sorts all indices
/// of the scores for that.
at::Tensor gather_in_order(const at::Tensor& z, const at::Tensor& index);

}  // namespace pe::encodings
