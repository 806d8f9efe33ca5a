/// @file
/// Matrix products in bf16 with fp32 sums on a CPU (`compute.dtype: bf16`), including products of fused attention.
/// Operands are fp32 in memory and are rounded to the nearest bf16 inside the product. All else, weights, norms,
/// softmax and losses, stays in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/cpu.h"

namespace pe::kernels {

/// The unit that multiplies. kPlain is fp32 arithmetic, by the instructions that LibTorch took. The others sum in
/// other orders.
enum class Bf16Unit { kNone, kPlain, kAvx512, kAmx };

/// Whether this CPU has the unit and the instructions that pack for it, usable by LibTorch. kNone and kPlain: always.
bool can_multiply_in_bf16(Bf16Unit by);

/// Its packing and tiles; null where this CPU lacks them, and of kNone.
const Bf16Table* bf16_table_of(Bf16Unit by);

/// Sets the unit that multiplies products of fp32 tensors on the CPU from here on. The device that was opened last
/// decides (model/device.h).
void multiply_in_bf16(Bf16Unit by);

/// "AMX", "AVX512-BF16" or "fp32 arithmetic".
const char* name_of(Bf16Unit unit);

/// The kernels that multiply x in bf16: for fp32 on the CPU, where the config asks for bf16; else null.
const Bf16Table* bf16_products_of(const at::Tensor& x);

/// c = a · b, or c += a · b. @param a [m, k]. @param b [k, n]; both fp32 with any strides. @param c [m, n] fp32 with
/// adjacent columns. The order in which an element is summed depends on k alone. Threads therefore do not change bits.
void product_in_bf16(const Bf16Table& by, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                     bool accumulate);

}  // namespace pe::kernels
