/// @file
/// LibTorch's vector functions on the CPU (exp, log, sqrt, ...) come from MKL, which detects the CPU's features at a
/// process's first call. Up to MKL 2024.2 (LibTorch 2.11 holds it) that is not thread-safe. While the first call of one
/// thread stores the result, another may read a value that means "low accuracy, AVX2". Its whole share of the tensor is
/// then computed so (https://github.com/pytorch/pytorch/issues/188792).
#pragma once

namespace pe::kernels {

/// Calls each vector function of MKL once for fp32 and once for fp64, on this thread. To be called while the process
/// has no other thread. encodings/attention/positional_encoding.cpp does so before `main`. This covers every program
/// that uses an encoding or a model; later calls cost microseconds and change nothing.
/// @return true, so that a namespace's constant can hold it.
bool resolve_vector_math();

}  // namespace pe::kernels
