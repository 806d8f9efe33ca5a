/// @file
/// Resamples of N items with replacement. They depend on (base, N, b) alone, so every model, and every program, that is
/// asked about N items draws the same ones, and differences between models are paired.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pe::support {

constexpr std::uint64_t kResampleBase = 20260101;

/// Adds to counts[i] how often resample `b` drew item i of `items`; the generator's key is
/// make_key({base, fnv1a64("bootstrap"), items, b}).
void add_resample(std::uint64_t base, std::size_t items, std::uint64_t b, std::uint16_t* counts);

}  // namespace pe::support
