/// @file
/// What the CUDA plug-in (`pe-cuda.so`) offers to programs that do not link CUDA: a table of functions behind one C symbol.
/// Sizes and pointers only, so that neither side sees the other's headers. Streams are `cudaStream_t` as void*.
#pragma once

#include <cstddef>
#include <cstdint>

inline constexpr int kPeCudaAbi = 2;                              ///< raised whenever PeCudaTable changes
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
  int (*set_device)(int device);         ///< of the calling thread, from here on
  void* (*current_stream)(int device);   ///< LibTorch's

  /// gradient[ids[i], :] += scale · rows[i, :], in the order of i for every row of the table, so that two runs agree.
  /// `order` lists 0 … count − 1 sorted stably by id. fp32 table; rows fp32, or bf16 with `rows_bf16`.
  int (*embedding_gradient)(const std::int64_t* ids, const std::int64_t* order, const void* rows, bool rows_bf16,
                            float* gradient, std::int64_t count, std::int64_t width, float scale, void* stream);

  /// Per row: loss = logsumexp − logit of the target; with `gradient` the row becomes softmax − one-hot, in place.
  /// Negative targets: loss 0, zero row. logits fp32, or bf16 with `logits_bf16`.
  int (*cross_entropy)(void* logits, bool logits_bf16, const std::int64_t* targets, float* loss, std::int64_t rows,
                       std::int64_t vocabulary, bool gradient, void* stream);

  /// NCCL; null where the build found no nccl.h. `id` is 128 bytes made by rank 0 and given to all. A communicator has a
  /// stream of its own, so that sums of gradients run beside the backward pass.
  int (*nccl_unique_id)(char id[128]);
  int (*nccl_open)(const char id[128], int ranks, int rank, int device, void** communicator, char* problem, std::size_t size);
  /// Begin once what `stream` holds by now is done; every rank begins the same ones in the same order.
  int (*nccl_start_sum)(void* communicator, void* data, std::int64_t count, bool is_double, void* stream);
  int (*nccl_start_broadcast)(void* communicator, void* data, std::int64_t bytes, int root, void* stream);
  /// What `stream` gets from now on runs after everything begun. `done` says whether that has ended already; a rank that
  /// is gone shows as an error with its text.
  int (*nccl_join)(void* communicator, void* stream);
  int (*nccl_done)(void* communicator, int* done, char* problem, std::size_t size);
  /// @param agreed all ranks come here; else what is under way is cut off
  void (*nccl_close)(void* communicator, bool agreed);
};
