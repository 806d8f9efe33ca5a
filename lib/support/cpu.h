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

}  // namespace pe::support
