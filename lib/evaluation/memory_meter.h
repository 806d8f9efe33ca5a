/// @file
/// How many bytes tensors take on a device, asked of its allocator.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>

namespace pe::evaluation {

struct MemoryUse {
  std::int64_t peak = 0;  ///< above the level before
  std::int64_t kept = 0;  ///< still there afterwards, above the level before; may be negative
};

/// Memory of `device` that this thread allocates while `work` runs.
MemoryUse memory_of(const c10::Device& device, const std::function<void()>& work);

}  // namespace pe::evaluation
