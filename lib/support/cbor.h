/// @file
/// The pieces of deterministic CBOR (RFC 8949, 4.2.1) that keys are made of. support::canonical_cbor (hash.h) writes
/// whole documents with them; code that makes many keys writes parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pe::support {

enum class Cbor : unsigned { kUnsigned = 0, kNegative = 1, kBytes = 2, kText = 3, kArray = 4, kMap = 5 };

/// A type and its number, in the shortest form: the value, the length of a text, the number of items.
inline void put_cbor_head(std::string& out, Cbor major, std::uint64_t value) {
  const auto type = static_cast<unsigned char>(static_cast<unsigned>(major) << 5);
  if (value < 24) {
    out += static_cast<char>(type | value);
    return;
  }
  int bytes = 8, code = 27;
  if (value <= 0xFF) {
    bytes = 1, code = 24;
  } else if (value <= 0xFFFF) {
    bytes = 2, code = 25;
  } else if (value <= 0xFFFFFFFF) {
    bytes = 4, code = 26;
  }
  out += static_cast<char>(type | code);
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i) & 255);
}

inline void put_cbor_text(std::string& out, std::string_view text) {
  put_cbor_head(out, Cbor::kText, text.size());
  out += text;
}

}  // namespace pe::support
