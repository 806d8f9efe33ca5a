/// @file
/// Where a kernel runs: on the CPU (kernels/cpu.h), in the plug-in (cuda/plugin.h), or nowhere, so that plain tensor
/// operations do the work. The device that was opened last decides (model/device.h). Operations ask kernels/ops.h.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/cpu.h"

struct PeCudaTable;

namespace pe::kernels {

/// Whether the fused kernels are to be used at all (`compute.kernels`).
void use_fused(bool fused);
bool uses_fused();

/// The functions of the plug-in; null until a CUDA device was opened.
void set_plugin(const PeCudaTable* table);
const PeCudaTable* plugin();

/// For tests: a table whose functions work on host memory, which tensors on the CPU are then given to. Null: none.
void stand_in_for_plugin(const PeCudaTable* table);

/// The CPU's form for the instruction set that LibTorch took.
const Table& cpu_table();

/// The CPU's kernels take fp32 in host memory; null elsewhere.
const Table* cpu_for(at::Device device, at::ScalarType type);
inline const Table* cpu_for(const at::Tensor& x) { return cpu_for(x.device(), x.scalar_type()); }

/// The plug-in's kernels take fp32 and bf16 on a GPU; null elsewhere.
const PeCudaTable* plugin_for(at::Device device, at::ScalarType type);
inline const PeCudaTable* plugin_for(const at::Tensor& x) { return plugin_for(x.device(), x.scalar_type()); }

/// Whether a read of a value by the host waits for queued work: on GPUs, and in tests with a stand-in for the plug-in.
bool waits_for_reads(at::Device device);

/// Bytes of memory of a GPU; 0 where no plug-in is loaded.
std::int64_t device_memory(at::Device device);

/// LibTorch's current stream on the tensor's device.
void* stream_of(const PeCudaTable* plugin, const at::Tensor& x);

/// @throws Error (kernels/cuda_error.h) that names the kernel where `status` is not 0.
void require_launched(int status, const char* kernel);

}  // namespace pe::kernels
