/// @file
/// The part of NCCL that lib/cuda/exchange.cpp calls, between threads of one process. As with a communicator that does
/// not block, calls return ncclInProgress and end later.
#pragma once

#include <cstddef>

#include "cuda_runtime_api.h"

namespace pe::stand_in {

struct ncclComm;
using ncclComm_t = ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { 1 }
enum ncclResult_t { ncclSuccess = 0, ncclInvalidUsage = 5, ncclRemoteError = 6, ncclInProgress = 7 };
enum ncclDataType_t { ncclChar = 0, ncclFloat = 7, ncclDouble = 8 };
enum ncclRedOp_t { ncclSum = 0 };

const char* ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t of, ncclResult_t* result);
ncclResult_t ncclCommFinalize(ncclComm_t of);
ncclResult_t ncclCommDestroy(ncclComm_t of);
ncclResult_t ncclCommAbort(ncclComm_t of);
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t of, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root, ncclComm_t of,
                           cudaStream_t stream);

}  // namespace pe::stand_in
