/// @file
/// cuDNN without GPUs: lib/cuda/cudnn_attention.cpp over stand-ins for its frontend and the CUDA runtime. It computes
/// from the strides that it receives, in float64. A backward pass that was not asked to be deterministic differs from
/// call to call.
#pragma once

#include <cstdint>

namespace pe::test {

/// It has no plan for texts of the first length, and none of its plans for the second one can be built.
inline constexpr std::int64_t kRefusedLength = 26, kBrokenLength = 27;

struct CudnnCalls {
  std::int64_t passes = 0;                                       ///< computed
  std::int64_t plans = 0;                                        ///< built
  std::int64_t last_forward_plan = -1, last_backward_plan = -1;  ///< that computed
};
const CudnnCalls& cudnn_calls();

}  // namespace pe::test
