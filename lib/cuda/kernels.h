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

}  // namespace pe::cuda
