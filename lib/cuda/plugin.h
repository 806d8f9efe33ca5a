/// @file
/// What the CUDA plug-in (`pe-cuda.so`) offers to programs that do not link CUDA: a table of functions behind one C symbol.
/// Sizes and pointers only, so that neither side sees the other's headers. Streams are `cudaStream_t` as void*.
#pragma once

#include <cstddef>
#include <cstdint>

inline constexpr int kPeCudaAbi = 1;                              ///< raised whenever PeCudaTable changes
inline constexpr const char* kPeCudaEntry = "pe_cuda_table";      ///< const PeCudaTable* pe_cuda_table()

struct PeCudaDevice {
  char name[256];
  int major = 0, minor = 0;          ///< compute capability
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
};

/// Functions that return int give 0 on success; `problem` (may be null) receives a text otherwise.
struct PeCudaTable {
  int abi = kPeCudaAbi;

  /// Number of devices; 0 or less with a text when there is none.
  int (*device_count)(char* problem, std::size_t size);
  int (*device_properties)(int device, PeCudaDevice* properties);
  void* (*current_stream)(int device);   ///< LibTorch's

  /// gradient[ids[i], :] += scale · rows[i, :], in the order of i for every row of the table, so that two runs agree.
  /// `order` lists 0 … count − 1 sorted stably by id. fp32 table; rows fp32, or bf16 with `rows_bf16`.
  int (*embedding_gradient)(const std::int64_t* ids, const std::int64_t* order, const void* rows, bool rows_bf16,
                            float* gradient, std::int64_t count, std::int64_t width, float scale, void* stream);

  /// Per row: loss = logsumexp − logit of the target; with `gradient` the row becomes softmax − one-hot, in place.
  /// Negative targets: loss 0, zero row. logits fp32, or bf16 with `logits_bf16`.
  int (*cross_entropy)(void* logits, bool logits_bf16, const std::int64_t* targets, float* loss, std::int64_t rows,
                       std::int64_t vocabulary, bool gradient, void* stream);

  /// NCCL; null where the build found no nccl.h. `id` is 128 bytes made by rank 0 and given to all.
  int (*nccl_unique_id)(char id[128]);
  int (*nccl_open)(const char id[128], int ranks, int rank, int device, void** communicator, char* problem, std::size_t size);
  int (*nccl_all_reduce_sum)(void* communicator, float* data, std::int64_t count, void* stream);
  int (*nccl_broadcast)(void* communicator, void* data, std::int64_t bytes, int root, void* stream);
  void (*nccl_close)(void* communicator);
};
