/// @file
/// Which texts came before, by 16 bytes of their SHA-256, in memory that is known beforehand.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "data/sources/split_rule.h"

namespace pe::data {

/// A flat table with open addressing, as large as the documents need from the start: 20 bytes each.
class SeenTexts {
 public:
  explicit SeenTexts(std::uint64_t documents) : slots_(documents + documents / 4 + 1) {}
  static std::uint64_t memory(std::uint64_t documents) { return sizeof(Slot) * (documents + documents / 4 + 1); }

  /// False when the text was there already. At most as many different texts as were announced.
  bool insert(const TextHash& hash) {
    Slot key;
    std::memcpy(&key, hash.data(), sizeof key);
    if (key == Slot{}) return !std::exchange(zero_, true);  // marks a free slot
    // The high bits of the product, so that any size will do.
    std::size_t at = static_cast<std::size_t>(static_cast<unsigned __int128>(key.first) * slots_.size() >> 64);
    for (; slots_[at] != Slot{}; at = at + 1 < slots_.size() ? at + 1 : 0) {
      if (slots_[at] == key) return false;
    }
    slots_[at] = key;
    return true;
  }

 private:
  struct Slot {
    std::uint64_t first = 0, second = 0;
    bool operator==(const Slot&) const = default;
  };
  std::vector<Slot> slots_;
  bool zero_ = false;
};

}  // namespace pe::data
