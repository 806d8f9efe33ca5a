/// @file
/// Keys of test items. An item depends on its key alone: not on threads, batches, order, or which model reads it, so
/// every model of a comparison meets the same items.
#pragma once

#include <cstdint>
#include <string_view>

#include "artifact/split.h"
#include "support/hash.h"
#include "support/random.h"

namespace pe::evaluation {

/// Fixed for all runs.
constexpr std::uint64_t kTestSeed = 20260101;

using artifact::Split;

inline std::uint64_t item_key(std::string_view task, Split split, std::int64_t length, std::int64_t index) {
  return support::make_key({kTestSeed, support::fnv1a64(task), static_cast<std::uint64_t>(split),
                            static_cast<std::uint64_t>(length), static_cast<std::uint64_t>(index)});
}

/// Key of draws that belong to no split: material of probes, trials of a tokenizer, measurements.
inline std::uint64_t probe_key(std::string_view task, std::int64_t length, std::int64_t index) {
  constexpr std::uint64_t kNoSplit = 3;
  return support::make_key({kTestSeed, support::fnv1a64(task), kNoSplit, static_cast<std::uint64_t>(length),
                            static_cast<std::uint64_t>(index)});
}

}  // namespace pe::evaluation
