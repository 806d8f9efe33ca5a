/// @file
/// Memory for what is as large as a model: weights, gradients, moments, and the copy that a checkpoint is written from.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pe::model {

/// Zeros [count]. On the CPU large ones are fresh pages of the system, in its large size where it has one: nothing passes
/// over them to clear them, and they cost a five-hundredth of the faults and look-ups.
at::Tensor flat_zeros(std::int64_t count, const at::TensorOptions& options);

/// `to` and all its views hold what `from` holds; on the CPU its memory becomes theirs without a copy, and `from` is not to be
/// used again. Both whole buffers of one length and dtype, `from` on the CPU.
void take_contents(const at::Tensor& to, const at::Tensor& from);

}  // namespace pe::model
