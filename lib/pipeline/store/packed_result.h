/// @file
/// Results and their keys in the form for very many tasks: a result takes one block of some two hundred bytes, which
/// copies share, in place of a dozen strings.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "pipeline/store/record.h"

namespace pe::pipeline {

/// The 32 bytes of 64 hex digits. Any other text is none: 32 zeros, whose digits are the empty text.
struct PackedDigest {
  PackedDigest() = default;
  explicit PackedDigest(std::string_view hex);
  std::string hex() const;
  auto operator<=>(const PackedDigest&) const = default;

  std::array<char, 32> bytes{};
};

struct PackedKey {
  PackedKey() = default;
  explicit PackedKey(const ResultKey& key) : digest(key.key), step(key.step) {}
  ResultKey unpack() const { return {digest.hex(), step}; }
  auto operator<=>(const PackedKey&) const = default;

  PackedDigest digest;
  std::int64_t step = -1;
};

struct PackedHash {
  std::size_t operator()(const PackedDigest& digest) const;
  std::size_t operator()(const PackedKey& key) const {
    return (*this)(key.digest) ^ (static_cast<std::size_t>(key.step + 1) * 0x9e3779b97f4a7c15ULL);
  }
};

/// A result, in the form in which the cache of records holds it (past_task.h): digests are SHA-256, roles and kinds at
/// most 255 bytes.
class PackedResult {
 public:
  PackedResult() = default;  ///< none
  explicit PackedResult(const Result& result);
  /// Empty when these are not the bytes of a result.
  static std::optional<PackedResult> of_bytes(std::string_view bytes);

  explicit operator bool() const { return block_ != nullptr; }
  Result unpack() const;
  std::string_view bytes() const;

 private:
  std::shared_ptr<const char[]> block_;  // its length, then the bytes
};

}  // namespace pe::pipeline
