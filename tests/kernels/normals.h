#pragma once

#include <ATen/ops/empty.h>

#include <cstdint>
#include <vector>

#include "support/random.h"

namespace pe::test {

/// Standard normals times `scale`, float64.
inline at::Tensor normals(std::uint64_t key, const std::vector<std::int64_t>& shape, double scale = 1) {
  at::Tensor t = at::empty(shape, at::kDouble);
  support::philox_normal(key, t.data_ptr<double>(), static_cast<std::size_t>(t.numel()));
  return t * scale;
}

}  // namespace pe::test
