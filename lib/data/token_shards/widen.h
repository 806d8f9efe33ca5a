/// @file
/// Stored ids as the wider integers that models read. This is the main cost of a window of tokens, so it uses AVX2
/// where available.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pe::data {

/// Copies `count` little-endian ids, aligned or not, and returns the largest (0 of none).
template <typename Stored, typename T>
std::uint32_t widen(const std::byte* from, std::size_t count, T* out);

extern template std::uint32_t widen<std::uint16_t>(const std::byte*, std::size_t, std::int64_t*);
extern template std::uint32_t widen<std::uint16_t>(const std::byte*, std::size_t, std::int32_t*);
extern template std::uint32_t widen<std::uint32_t>(const std::byte*, std::size_t, std::int64_t*);
extern template std::uint32_t widen<std::uint32_t>(const std::byte*, std::size_t, std::int32_t*);

/// Asks for memory that is read soon, a line at a time; pages that are not there stay away.
void prefetch(const std::byte* from, std::size_t bytes);

}  // namespace pe::data
