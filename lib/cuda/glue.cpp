// The plug-in's table as plugin.h promises it, over the CUDA runtime and LibTorch's streams.
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "cuda/exchange.h"
#include "cuda/kernels.h"
#include "cuda/plugin.h"

namespace {

using pe::cuda::say;

int device_count(char* problem, std::size_t size) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    say(cudaGetErrorString(status), problem, size);
    return -1;
  }
  if (count == 0) say("no CUDA device was found", problem, size);
  return count;
}

int device_properties(int device, PeCudaDevice* properties) {
  cudaDeviceProp found{};
  const cudaError_t status = cudaGetDeviceProperties(&found, device);
  if (status != cudaSuccess) return status;
  std::memcpy(properties->name, found.name, std::min(sizeof properties->name, sizeof found.name));
  properties->name[sizeof properties->name - 1] = 0;
  properties->major = found.major;
  properties->minor = found.minor;
  properties->multiprocessors = found.multiProcessorCount;
  properties->memory_bytes = found.totalGlobalMem;
  return 0;
}

int set_device(int device) { return cudaSetDevice(device); }

void* current_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

PeCudaTable make_table() {
  PeCudaTable table{};
  table.device_count = device_count;
  table.device_properties = device_properties;
  table.set_device = set_device;
  table.current_stream = current_stream;
  pe::cuda::fill_row_kernels(table);
  pe::cuda::fill_attention_kernels(table);
#if defined(PE_HAVE_CUBLASLT)
  pe::cuda::fill_products(table);
#endif
#if defined(PE_HAVE_CUDNN)
  pe::cuda::fill_cudnn_attention(table);
#endif
#if defined(PE_HAVE_NCCL)
  pe::cuda::fill_nccl(table);
#endif
  return table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* pe_cuda_layout() { return PE_CUDA_LAYOUT; }

extern "C" __attribute__((visibility("default"))) const void* pe_cuda_table() {
  static const PeCudaTable table = make_table();
  return &table;
}
