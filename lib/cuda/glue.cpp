// The plug-in's table: what plugin.h promises, over the CUDA runtime, LibTorch's streams and NCCL.
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#if defined(PE_HAVE_NCCL)
#include <nccl.h>
#endif

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

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

int set_device(int device) { return cudaSetDevice(device); }

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

struct Communicator {
  ncclComm_t nccl = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  double timeout_s = 0;

  ~Communicator() {
    if (event != nullptr) cudaEventDestroy(event);
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
};

/// CUDA's errors as negative numbers, so that they are not taken for NCCL's.
int cuda_status(cudaError_t status) { return status == cudaSuccess ? 0 : -static_cast<int>(status); }

/// What a call that does not block ends with; ncclInProgress when that took longer than the communicator waits.
ncclResult_t settled(const Communicator& self, ncclResult_t result) {
  const auto begin = std::chrono::steady_clock::now();
  while (result == ncclInProgress) {
    const ncclResult_t asked = ncclCommGetAsyncError(self.nccl, &result);
    if (asked != ncclSuccess) return asked;
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > self.timeout_s) break;
    if (result == ncclInProgress) usleep(200);
  }
  return result;
}

int nccl_open(const char id[128], int ranks, int rank, int device, double timeout_s, void** communicator, char* problem,
              std::size_t size) {
  auto made = std::make_unique<Communicator>();
  made->timeout_s = timeout_s;
  cudaError_t status = cudaSetDevice(device);
  if (status == cudaSuccess) status = cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking);
  if (status == cudaSuccess) status = cudaEventCreateWithFlags(&made->event, cudaEventDisableTiming);
  if (status != cudaSuccess) {
    say(cudaGetErrorString(status), problem, size);
    return cuda_status(status);
  }
  ncclUniqueId given;
  std::memcpy(&given, id, sizeof given);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // a rank that died must not hold the others for ever
  const ncclResult_t result = settled(*made, ncclCommInitRankConfig(&made->nccl, ranks, given, rank, &config));
  if (result != ncclSuccess) {
    say(result == ncclInProgress ? "the other ranks did not come within compute.rank_timeout"
                                 : ncclGetErrorString(result),
        problem, size);
    if (made->nccl != nullptr) ncclCommAbort(made->nccl);
    return result;
  }
  *communicator = made.release();
  return 0;
}

/// The communicator's stream waits for what `stream` holds now.
cudaError_t follow(const Communicator& communicator, void* stream) {
  const cudaError_t status = cudaEventRecord(communicator.event, static_cast<cudaStream_t>(stream));
  return status != cudaSuccess ? status : cudaStreamWaitEvent(communicator.stream, communicator.event, 0);
}

int nccl_start_sum(void* communicator, void* data, std::int64_t count, bool is_double, void* stream) {
  const auto& self = *static_cast<Communicator*>(communicator);
  if (const cudaError_t status = follow(self, stream); status != cudaSuccess) return cuda_status(status);
  return settled(self, ncclAllReduce(data, data, static_cast<std::size_t>(count), is_double ? ncclDouble : ncclFloat,
                                     ncclSum, self.nccl, self.stream));
}

int nccl_start_broadcast(void* communicator, void* data, std::int64_t bytes, int root, void* stream) {
  const auto& self = *static_cast<Communicator*>(communicator);
  if (const cudaError_t status = follow(self, stream); status != cudaSuccess) return cuda_status(status);
  return settled(self,
                 ncclBroadcast(data, data, static_cast<std::size_t>(bytes), ncclChar, root, self.nccl, self.stream));
}

int nccl_join(void* communicator, void* stream) {
  const auto& self = *static_cast<Communicator*>(communicator);
  if (const cudaError_t status = cudaEventRecord(self.event, self.stream); status != cudaSuccess)
    return cuda_status(status);
  return cuda_status(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), self.event, 0));
}

int nccl_done(void* communicator, int* done, char* problem, std::size_t size) {
  const auto& self = *static_cast<Communicator*>(communicator);
  ncclResult_t remote = ncclSuccess;
  ncclResult_t result = ncclCommGetAsyncError(self.nccl, &remote);
  if (result == ncclSuccess && remote != ncclInProgress) result = remote;
  if (result != ncclSuccess) {
    say(ncclGetErrorString(result), problem, size);
    return result;
  }
  const cudaError_t status = cudaStreamQuery(self.stream);
  *done = status == cudaSuccess;
  if (status == cudaSuccess || status == cudaErrorNotReady) return 0;
  say(cudaGetErrorString(status), problem, size);
  return cuda_status(status);
}

void nccl_close(void* communicator, bool agreed) {
  auto* self = static_cast<Communicator*>(communicator);
  if (self == nullptr) return;
  if (agreed) {
    settled(*self, ncclCommFinalize(self->nccl));
    ncclCommDestroy(self->nccl);
  } else {
    ncclCommAbort(self->nccl);
  }
  delete self;
}
#endif

PeCudaTable make_table() {
  PeCudaTable table{};
  table.device_count = device_count;
  table.device_properties = device_properties;
  table.set_device = set_device;
  table.current_stream = current_stream;
  pe::cuda::fill_row_kernels(table);
  pe::cuda::fill_attention_kernels(table);
#if defined(PE_HAVE_NCCL)
  table.nccl_unique_id = nccl_unique_id;
  table.nccl_open = nccl_open;
  table.nccl_start_sum = nccl_start_sum;
  table.nccl_start_broadcast = nccl_start_broadcast;
  table.nccl_join = nccl_join;
  table.nccl_done = nccl_done;
  table.nccl_close = nccl_close;
#endif
  return table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* pe_cuda_layout() { return PE_CUDA_LAYOUT; }

extern "C" __attribute__((visibility("default"))) const void* pe_cuda_table() {
  static const PeCudaTable table = make_table();
  return &table;
}
