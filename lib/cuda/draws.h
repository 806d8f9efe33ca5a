/// @file
/// Dropout masks, drawn where they are used, with the bits that the host draws (support/random.h). Sums of gradients by
/// values that a gather has read, in the order of the reading.
#pragma once

#include "cuda/rows.h"

namespace pe::cuda {

/// Philox4x32-10 (Salmon et al. 2011), key and counter low word first.
PE_BOTH void philox(std::uint64_t key, std::uint64_t counter, std::uint32_t (&x)[4]) {
  x[0] = static_cast<std::uint32_t>(counter), x[1] = static_cast<std::uint32_t>(counter >> 32), x[2] = x[3] = 0;
  std::uint32_t low = static_cast<std::uint32_t>(key), high = static_cast<std::uint32_t>(key >> 32);
  PE_UNROLL
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * x[0], b = std::uint64_t{0xCD9E8D57} * x[2];
    const std::uint32_t first = static_cast<std::uint32_t>(b >> 32) ^ x[1] ^ low,
                        third = static_cast<std::uint32_t>(a >> 32) ^ x[3] ^ high;
    x[1] = static_cast<std::uint32_t>(b);
    x[3] = static_cast<std::uint32_t>(a);
    x[0] = first;
    x[2] = third;
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
}

/// Cell (sample, block of four): 0 where the draw is below the threshold, else `kept`.
template <typename Value>
struct DropoutMask {
  Value* mask;
  const std::int64_t* keys;  ///< of each sample, the bits of unsigned numbers
  std::int64_t count;        ///< of a sample
  std::uint32_t threshold;   ///< of 24 bits
  float kept;

  PE_BOTH void operator()(std::int64_t sample, std::int64_t block) const {
    std::uint32_t x[4];
    philox(static_cast<std::uint64_t>(keys[sample]), static_cast<std::uint64_t>(block), x);
    PE_UNROLL
    for (int j = 0; j < 4; ++j) {
      const std::int64_t at = block * 4 + j;
      if (at < count) mask[sample * count + at] = static_cast<Value>((x[j] >> 8) < threshold ? 0.0F : kept);
    }
  }
};

/// Cell (row, position): the sum of the row's gradients whose index is the position.
template <typename Value>
struct GatherGradient {
  const Value* gradient;      ///< [rows, keys]
  const std::int64_t* index;  ///< [rows, keys]
  Value* to;                  ///< [rows, positions]
  std::int64_t keys, positions;

  PE_BOTH void operator()(std::int64_t row, std::int64_t position) const {
    float sum = 0;
    for (std::int64_t key = row * keys; key < (row + 1) * keys; ++key) {
      if (index[key] == position) sum += static_cast<float>(gradient[key]);
    }
    to[row * positions + position] = static_cast<Value>(sum);
  }
};

}  // namespace pe::cuda
