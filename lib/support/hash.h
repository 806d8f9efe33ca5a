/// @file
/// SHA-256 (OpenSSL), CRC-32C (Boost.CRC's polynomial), FNV-1a, and the canonical encoding that keys are hashes of.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "support/json.h"

namespace pe::support {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(const void* data, std::size_t bytes);
  void update(std::string_view text) { update(text.data(), text.size()); }
  std::array<std::uint8_t, 32> digest();  ///< ends the hash
  std::string hex();                      ///< ends the hash; 64 lower-case digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_hex(std::string_view bytes);
std::string sha256_file(const std::filesystem::path& path);  ///< @throws IoError
std::string to_hex(const std::uint8_t* bytes, std::size_t count);

/// Castagnoli CRC, as iSCSI and HDF5 tools use it; check value of "123456789" is e3069283.
std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t seed = 0);

/// FNV-1a, 64 bits; names purposes and tensors in random keys.
std::uint64_t fnv1a64(std::string_view text);

/// Deterministic CBOR (RFC 8949, section 4.2). Integers and lengths are shortest, map keys are sorted by their encoded
/// bytes, every real is binary64 with -0 as 0. @throws Error (bug) for NaN, which no key may hold.
std::string canonical_cbor(const Json& value);

/// sha256 over canonical_cbor([type, value]); `type` is such as "pe/task/1".
std::string canonical_hash(std::string_view type, const Json& value);

}  // namespace pe::support
