/// @file
/// A table over distances laid out as a matrix of biases, without a gather: one copy forward, one sum of diagonals
/// back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pe::encodings {

/// out[h, r, j] = table[h, i − j] with i = begin + r, and 0 where j > i.
/// @param table [H,n] with n ≥ end. The gradient of `table` is the sum of each diagonal, the same for every number of
/// threads.
/// @return [H, end − begin, keys]. `keys` is at most `end`.
at::Tensor toeplitz(const at::Tensor& table, std::int64_t begin, std::int64_t end, std::int64_t keys);

}  // namespace pe::encodings
