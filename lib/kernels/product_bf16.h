/// @file
/// Matrix products in bf16 with fp32 sums on a CPU (`compute.dtype: bf16`): operands are fp32 in memory and are rounded to
/// the nearest bf16 inside the product. All else, weights, norms, softmax, losses and attention, stays in fp32.
#pragma once

#include <ATen/core/Tensor.h>

namespace pe::kernels {

/// What multiplies. The two sum in different orders.
enum class Bf16Unit { kNone, kAvx512, kAmx };

/// Whether this CPU has AVX512-BF16 or AMX with what packs for it, as LibTorch may use it. kNone: always.
bool can_multiply_in_bf16(Bf16Unit by = Bf16Unit::kAvx512);

/// By what the products of product.h do so from here on. The device that was opened last decides (model/device.h).
void multiply_in_bf16(Bf16Unit by);

/// "AMX" or "AVX512-BF16".
const char* name_of(Bf16Unit unit);

/// Whether products of x do: fp32 on the CPU, where it was asked for.
bool multiplies_in_bf16(const at::Tensor& x);

/// c = a · b, or c += a · b. @param a [m, k]. @param b [k, n]; both fp32 with any strides. @param c [m, n] fp32, its columns
/// side by side. The order in which an element is summed depends on k alone, so threads do not change bits.
void product_in_bf16(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, bool accumulate);

}  // namespace pe::kernels
