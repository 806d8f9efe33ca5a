/// @file
/// Products of heads, where several query heads may share the keys and values of a group. Factors in bf16 or fp16 are
/// multiplied as they are and summed in fp32, on tensor cores; other factors as LibTorch multiplies them.
#pragma once

#include <ATen/core/Tensor.h>

namespace pe::encodings {

/// bf16 or fp16.
bool is_half(at::ScalarType type);

/// rows · keysᵀ, at least float32. @param rows [B,H,T,n]. @param keys [B,G,S,n]. @return [B,H,T,S].
at::Tensor products(const at::Tensor& rows, const at::Tensor& keys);

/// weights · values in the dtype of the weights, at least float32. @param weights [B,H,T,S]. @param values [B,G,S,n].
/// @return [B,H,T,n].
at::Tensor mix(const at::Tensor& weights, const at::Tensor& values);

/// slopesᵀ · rows, summed over the heads of each group. @param slopes [B,H,T,S], at least float32.
/// @param rows [B,H,T,n]. @return [B,G,S,n], at least float32.
at::Tensor gathered(const at::Tensor& slopes, const at::Tensor& rows, std::int64_t groups);

}  // namespace pe::encodings
