/// @file
/// The device of a model, and its plug-in.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "model/compute.h"

namespace pe::model {

/// The device of a resolved config, ready to use, from here on with the kernels that it names. For cuda it loads
/// LibTorch's CUDA library and then `pe-cuda.so`, before the first backward pass of the process.
/// @throws ConfigError with one line that names the missing part. It is the plug-in, CUDA's libraries, a driver or a
/// device.
at::Device open_device(const ComputeConfig& compute);

/// The product's name, as the system states it.
std::string device_name(at::Device device);

/// The dtype of activations: bf16 on a GPU that computes in bf16, else fp32.
at::ScalarType compute_type(const ComputeConfig& compute);

/// Whether kernels of the plug-in for a GPU of that compute capability are compiled by the driver, whose version then
/// decides their bits.
bool runs_from_ptx(int major, int minor);

/// Everything except config and inputs that decides the bits of a result. It is LibTorch and the libraries below it,
/// the device, instruction set, dtype, threads and kernels, and this program's build. For checkpoints.
Json fingerprint(const ComputeConfig& compute, at::Device device);

/// "AMD EPYC 9R14, 2 threads, avx512" or "NVIDIA H200, bf16"; for the first line of a log.
std::string device_summary(const ComputeConfig& compute, at::Device device);

/// On a GPU the largest number of bytes in tensors since the process began; on the CPU the current resident memory of
/// the process.
double memory_in_use(at::Device device);

/// The vendor's dense peak in bf16, whatever dtype is used, floating-point operations a second; empty for a CPU and for
/// GPUs that are not listed.
std::optional<double> peak_flops(at::Device device, const std::string& name);

}  // namespace pe::model
