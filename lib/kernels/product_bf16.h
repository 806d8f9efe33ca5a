/// @file
/// Matrix products in bf16 with fp32 sums on a CPU (`compute.dtype: bf16`): operands are fp32 in memory and are rounded to
/// the nearest bf16 inside the product. All else, weights, norms, softmax, losses and attention, stays in fp32.
#pragma once

#include <ATen/core/Tensor.h>

namespace pe::kernels {

/// Whether this CPU has AVX512-BF16, alone or beside AMX.
bool can_multiply_in_bf16();

/// What multiplies: "AMX" or "AVX512-BF16"; empty where the CPU has neither.
const char* bf16_unit();

/// Whether the products of product.h do so from here on. The device that was opened last decides (model/device.h).
void multiply_in_bf16(bool yes);

/// Whether products of x do: fp32 on the CPU, where it was asked for.
bool multiplies_in_bf16(const at::Tensor& x);

/// c = a · b, or c += a · b. @param a [m, k]. @param b [k, n]; both fp32 with any strides. @param c [m, n] fp32, its columns
/// side by side. The order in which an element is summed depends on k alone, so threads do not change bits.
void product_in_bf16(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, bool accumulate);

}  // namespace pe::kernels
