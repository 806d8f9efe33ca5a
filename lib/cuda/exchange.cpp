// Sums and broadcasts between ranks, as plugin.h promises them, over NCCL and the CUDA runtime. The tests build this
// file with stand-ins for both.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>

#include "cuda/exchange.h"

namespace pe::cuda {

namespace {

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

/// The final result of a call that does not block; ncclInProgress where it takes longer than the communicator waits.
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

/// The communicator's stream waits for the present work of `stream`.
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

}  // namespace

void fill_nccl(PeCudaTable& table) {
  table.nccl_unique_id = nccl_unique_id;
  table.nccl_open = nccl_open;
  table.nccl_start_sum = nccl_start_sum;
  table.nccl_start_broadcast = nccl_start_broadcast;
  table.nccl_join = nccl_join;
  table.nccl_done = nccl_done;
  table.nccl_close = nccl_close;
}

}  // namespace pe::cuda
