/// @file
/// The CPU of this machine.
#pragma once

#include <string>

namespace pe::support {

/// Its name, as stages record it; "CPU" where the system does not say.
const std::string& cpu_name();

/// The widest instruction set that it has, in the words of `compute.isa`: "amx" (AMX's tiles in bf16, and AVX-512),
/// "avx512" (F, DQ, BW and VL), "avx2" (with FMA) or "portable".
const char* widest_instruction_set();

/// The one that `compute.isa: auto` takes: amx for products in bf16 alone, and for them avx512 only where the CPU has
/// AVX512-BF16.
const char* best_instruction_set(bool in_bf16);

}  // namespace pe::support
