/// @file
/// LibTorch's vector functions on the CPU (exp, log, sqrt, ...) come from MKL, which finds out at a process's first call
/// what the CPU offers. Up to MKL 2024.2 (LibTorch 2.11 holds it) that is not safe among threads: while one thread's first
/// call stores what it found, another may read a value that stands for "low accuracy, AVX2", and its whole share of the
/// tensor is computed so (https://github.com/pytorch/pytorch/issues/188792).
#pragma once

namespace pe::kernels {

/// Calls each vector function of MKL once for fp32 and once for fp64, on this thread. To be called while the process
/// has no other thread. encodings/attention/positional_encoding.cpp does so before `main`, hence in every program that
/// uses an encoding or a model; later calls cost microseconds and change nothing.
/// @return true, so that a namespace's constant can hold it.
bool resolve_vector_math();

}  // namespace pe::kernels
