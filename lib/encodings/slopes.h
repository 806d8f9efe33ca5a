/// @file
/// ALiBi's slopes, which other biases start from or borrow.
#pragma once

#include <cstdint>
#include <vector>

namespace pe::encodings {

/// 2^(−8(h+1)/H) for H a power of two. For another H those of the largest power of two below it, then every second of
/// twice that power, so the list is not monotone.
std::vector<double> alibi_slopes(std::int64_t heads);

}  // namespace pe::encodings
