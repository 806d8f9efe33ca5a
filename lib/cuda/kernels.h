/// @file
/// Where sources without LibTorch enter their functions into the plug-in's table (glue.cpp).
#pragma once

#include "cuda/plugin.h"

namespace pe::cuda {

/// Enters the kernels of rows.h, heads.h and loss.h.
void fill_row_kernels(PeCudaTable& table);

/// Enters the kernels of attention.h (attention.cu).
void fill_attention_kernels(PeCudaTable& table);

/// Enters products by cuBLASLt (products.cpp, which is built where cublasLt.h is found).
void fill_products(PeCudaTable& table);

/// Enters plain attention by cuDNN (cudnn_attention.cpp, which is built where the headers of cuDNN and of its frontend
/// are found).
void fill_cudnn_attention(PeCudaTable& table);

/// Does cuDNN accept a pass? It needs no device.
/// @param capability of a device, such as 90
/// @param device  its properties, as cuDNN writes them in JSON: cuDNN must have a plan for it. Null: no plan is sought.
/// @return 0; −1 where cuDNN is not found; else 1 with a text
int check_cudnn_attention(const PeCudaAttention& of, bool backward, int capability, const char* device, char* problem,
                          std::size_t size);

}  // namespace pe::cuda
