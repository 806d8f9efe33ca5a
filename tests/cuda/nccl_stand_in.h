/// @file
/// NCCL without GPUs: lib/cuda/exchange.cpp over stand-ins for NCCL and the CUDA runtime. Ranks are threads of one
/// process, sums are in the order of the ranks.
#pragma once

#include "cuda/plugin.h"

namespace pe::test {

/// A table with the functions of NCCL, which work on host memory.
const PeCudaTable& nccl_stand_in();

}  // namespace pe::test
