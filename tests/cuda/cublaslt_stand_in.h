/// @file
/// cuBLASLt without GPUs: lib/cuda/products.cpp over stand-ins for it and the CUDA runtime. An algorithm cuts the sum
/// into parts, which are summed in float64, rounded to fp32 and added in order, so that its bytes are its own.
#pragma once

#include <cstdint>

#include "cuda/plugin.h"

namespace pe::test {

/// Products that it computed so far.
std::int64_t cublaslt_calls();

}  // namespace pe::test
