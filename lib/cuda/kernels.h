/// @file
/// Launchers of the plug-in's kernels, between the .cu files (nvcc, no LibTorch) and glue.cpp. Each returns a cudaError_t.
#pragma once

#include <cstdint>

#include "cuda/plugin.h"

namespace pe::cuda {

int launch_embedding_gradient(const std::int64_t* ids, const std::int64_t* order, const void* rows, bool rows_bf16,
                              float* gradient, std::int64_t count, std::int64_t width, float scale, void* stream);

int launch_cross_entropy(void* logits, bool logits_bf16, const std::int64_t* targets, float* loss, std::int64_t rows,
                         std::int64_t vocabulary, bool gradient, void* stream);

/// Enters the kernels of rows.h.
void fill_row_kernels(PeCudaTable& table);

/// Enters the kernels of attention.h (attention.cu).
void fill_attention_kernels(PeCudaTable& table);

}  // namespace pe::cuda
