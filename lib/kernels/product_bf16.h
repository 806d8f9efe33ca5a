/// @file
/// Matrix products in bf16 with fp32 sums on a CPU (`compute.dtype: bf16`), those of fused attention among them:
/// operands are fp32 in memory and are rounded to the nearest bf16 inside the product. All else, weights, norms,
/// softmax and losses, stays in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/cpu.h"

namespace pe::kernels {

/// What multiplies. The two sum in different orders.
enum class Bf16Unit { kNone, kAvx512, kAmx };

/// Whether this CPU has AVX512-BF16 or AMX with what packs for it, as LibTorch may use it. kNone: always.
bool can_multiply_in_bf16(Bf16Unit by = Bf16Unit::kAvx512);

/// Its packing and tiles; null where this CPU lacks them, and of kNone.
const Bf16Table* bf16_table_of(Bf16Unit by);

/// By what products of fp32 tensors on the CPU multiply from here on. The device that was opened last decides
/// (model/device.h).
void multiply_in_bf16(Bf16Unit by);

/// "AMX" or "AVX512-BF16".
const char* name_of(Bf16Unit unit);

/// For tests: multiplies in place of every unit from the next `multiply_in_bf16` on, so that CPUs without any can run
/// what uses them. Null: none.
void stand_in_for_bf16(const Bf16Table* table);
bool stands_in_for_bf16();

/// What multiplies x in bf16: fp32 on the CPU, where it was asked for; else null.
const Bf16Table* bf16_products_of(const at::Tensor& x);

/// c = a · b, or c += a · b. @param a [m, k]. @param b [k, n]; both fp32 with any strides. @param c [m, n] fp32, its columns
/// side by side. The order in which an element is summed depends on k alone, so threads do not change bits.
void product_in_bf16(const Bf16Table& by, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                     bool accumulate);

}  // namespace pe::kernels
