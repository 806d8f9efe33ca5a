/// @file
/// Instruction sets of this machine's CPU.
#pragma once

namespace pe::support {

/// The widest set that this machine has, in the words of `compute.isa`: "amx" (AMX's tiles in bf16, and AVX-512),
/// "avx512" (F, DQ, BW and VL), "avx2" (with FMA) or "portable".
const char* widest_instruction_set();

}  // namespace pe::support
