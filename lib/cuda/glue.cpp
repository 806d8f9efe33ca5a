// The plug-in's table: what plugin.h promises, over the CUDA runtime, LibTorch's streams and NCCL.
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#if defined(PE_HAVE_NCCL)
#include <nccl.h>
#endif

#include <algorithm>
#include <cstring>

#include "cuda/kernels.h"
#include "cuda/plugin.h"

namespace {

void say(const char* text, char* problem, std::size_t size) {
  if (problem == nullptr || size == 0) return;
  const std::size_t length = std::min(std::strlen(text), size - 1);
  std::memcpy(problem, text, length);
  problem[length] = 0;
}

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

void* current_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

#if defined(PE_HAVE_NCCL)
static_assert(sizeof(ncclUniqueId) == 128, "plugin.h gives the id 128 bytes");

int nccl_unique_id(char id[128]) {
  ncclUniqueId made;
  const ncclResult_t status = ncclGetUniqueId(&made);
  if (status == ncclSuccess) std::memcpy(id, &made, sizeof made);
  return status;
}

int nccl_open(const char id[128], int ranks, int rank, int device, void** communicator, char* problem, std::size_t size) {
  if (const cudaError_t status = cudaSetDevice(device); status != cudaSuccess) {
    say(cudaGetErrorString(status), problem, size);
    return status;
  }
  ncclUniqueId given;
  std::memcpy(&given, id, sizeof given);
  ncclComm_t made = nullptr;
  const ncclResult_t status = ncclCommInitRank(&made, ranks, given, rank);
  if (status != ncclSuccess) say(ncclGetErrorString(status), problem, size);
  *communicator = made;
  return status;
}

int nccl_all_reduce_sum(void* communicator, float* data, std::int64_t count, void* stream) {
  return ncclAllReduce(data, data, static_cast<std::size_t>(count), ncclFloat, ncclSum, static_cast<ncclComm_t>(communicator),
                       static_cast<cudaStream_t>(stream));
}

int nccl_broadcast(void* communicator, void* data, std::int64_t bytes, int root, void* stream) {
  return ncclBroadcast(data, data, static_cast<std::size_t>(bytes), ncclChar, root, static_cast<ncclComm_t>(communicator),
                       static_cast<cudaStream_t>(stream));
}

void nccl_close(void* communicator) {
  if (communicator != nullptr) ncclCommDestroy(static_cast<ncclComm_t>(communicator));
}
#endif

constexpr PeCudaTable kTable{
    .abi = kPeCudaAbi,
    .device_count = device_count,
    .device_properties = device_properties,
    .current_stream = current_stream,
    .embedding_gradient = pe::cuda::launch_embedding_gradient,
    .cross_entropy = pe::cuda::launch_cross_entropy,
#if defined(PE_HAVE_NCCL)
    .nccl_unique_id = nccl_unique_id,
    .nccl_open = nccl_open,
    .nccl_all_reduce_sum = nccl_all_reduce_sum,
    .nccl_broadcast = nccl_broadcast,
    .nccl_close = nccl_close,
#else
    .nccl_unique_id = nullptr,
    .nccl_open = nullptr,
    .nccl_all_reduce_sum = nullptr,
    .nccl_broadcast = nullptr,
    .nccl_close = nullptr,
#endif
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const PeCudaTable* pe_cuda_table() { return &kTable; }
