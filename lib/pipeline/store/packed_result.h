/// @file
/// Results and their keys as they are kept for very many tasks: a result takes one block of some two hundred bytes, which
/// copies share, in place of a dozen strings.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "pipeline/store/record.h"

namespace pe::pipeline {

/// Appends a number, or whatever is plain bytes, as it stands in memory: files of the index are little-endian.
template <typename T>
void put_bytes(std::string& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// The bytes that 64 hex digits stand for; 32 zeros for any other text.
struct PackedDigest {
  PackedDigest() = default;
  explicit PackedDigest(std::string_view hex);
  std::string hex() const;
  bool operator==(const PackedDigest&) const = default;

  std::array<char, 32> bytes{};
};

/// A key that is kept for very many tasks and reads as its digits; empty until it is known.
class KeptKey {
 public:
  KeptKey() = default;
  KeptKey(std::string_view hex) : digest_(hex) {}   // NOLINT: stands for its digits
  operator std::string() const { return digest_ == PackedDigest() ? std::string() : digest_.hex(); }   // NOLINT
  friend bool operator==(const std::string& hex, const KeptKey& key) { return hex == std::string(key); }

 private:
  PackedDigest digest_;
};

struct PackedKey {
  PackedKey() = default;
  explicit PackedKey(const ResultKey& key) : digest(key.key), step(key.step) {}
  ResultKey unpack() const { return {digest.hex(), step}; }
  bool operator==(const PackedKey&) const = default;

  PackedDigest digest;
  std::int64_t step = -1;
};

struct PackedHash {
  std::size_t operator()(const PackedDigest& digest) const;
  std::size_t operator()(const PackedKey& key) const {
    return (*this)(key.digest) ^ (static_cast<std::size_t>(key.step + 1) * 0x9e3779b97f4a7c15ULL);
  }
};

/// A result, in the form in which index files hold it (index.h): digests are SHA-256, roles and kinds at most 255 bytes.
class PackedResult {
 public:
  PackedResult() = default;   ///< none
  explicit PackedResult(const Result& result);
  /// Of what an index file holds. Empty when these are not the bytes of a result.
  static std::optional<PackedResult> of_bytes(std::string_view bytes);

  explicit operator bool() const { return block_ != nullptr; }
  Result unpack() const;
  std::string_view bytes() const;

 private:
  std::shared_ptr<const char[]> block_;   // its length, then the bytes
};

}  // namespace pe::pipeline
