/// @file
/// Byte-pair encoding of one word: the pair of neighbours with the lowest rank is joined, of equal ones the first,
/// until no pair has a rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace pe::data {

class PairMerges {
 public:
  /// Room for so many merges; to be called once, first.
  void reserve(std::size_t merges);
  /// Symbols are at least 0; those below join with nothing. False when the pair is there already.
  bool add(std::int32_t left, std::int32_t right, std::uint32_t rank, std::int32_t joined);
  std::size_t size() const { return size_; }

  /// Joins in place and returns how many symbols are left. n² for short words, n log n for long ones.
  std::size_t merge(std::span<std::int32_t> symbols) const;

 private:
  static constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint64_t kFree =
      std::numeric_limits<std::uint64_t>::max();  // the key of no pair that was added
  static constexpr std::size_t kShort = 48;
  struct Merge {
    std::uint32_t rank = kNoRank;
    std::int32_t joined = -1;
  };
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };

  Merge find(std::int32_t left, std::int32_t right) const;
  std::size_t place(std::uint64_t key) const;
  std::size_t merge_short(std::span<std::int32_t> symbols) const;
  std::size_t merge_long(std::span<std::int32_t> symbols) const;

  std::vector<Slot> slots_ = std::vector<Slot>(1);  // open addressing: a pair is looked up three times a symbol
  std::size_t size_ = 0;
};

}  // namespace pe::data
