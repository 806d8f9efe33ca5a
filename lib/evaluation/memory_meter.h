/// @file
/// How many bytes tensors take, asked of the allocators: on the CPU and on GPUs.
#pragma once

#include <cstdint>
#include <functional>

namespace pe::evaluation {

struct MemoryUse {
  std::int64_t peak = 0;  ///< above the level before
  std::int64_t kept = 0;  ///< still there afterwards, above the level before; may be negative
};

/// Memory that this thread allocates while `work` runs.
MemoryUse memory_of(const std::function<void()>& work);

}  // namespace pe::evaluation
