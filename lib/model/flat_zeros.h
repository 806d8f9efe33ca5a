/// @file
/// Memory for buffers as large as a model: weights, gradients, moments, and the copy that a checkpoint is written from.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pe::model {

/// Zeros [count]. On the CPU large ones are fresh pages of the system, huge pages where available. No pass over them is
/// needed to clear them, and they cost a five-hundredth of the page faults and look-ups.
at::Tensor flat_zeros(std::int64_t count, const at::TensorOptions& options);

/// Moves the contents of `from` into `to` and so into every view of it: on the CPU `to` takes over the memory without a
/// copy, elsewhere it copies. `from` must not be used afterwards. Both are whole buffers of one length and dtype,
/// `from` on the CPU.
void move_contents(const at::Tensor& from, const at::Tensor& to);

}  // namespace pe::model
