/// @file
/// SHA-256 digests as text: 64 hex digits, in lower case.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pe::support {

inline bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Writes two lower-case digits for each of `count` bytes.
inline void write_hex(const void* bytes, std::size_t count, char* digits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto* at = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < count; ++i) {
    digits[2 * i] = kDigits[at[i] >> 4];
    digits[2 * i + 1] = kDigits[at[i] & 15];
  }
}

/// Appends the 32 bytes of the digits; of any other text 32 zero bytes.
inline void append_sha256(std::string& bytes, std::string_view hex) {
  if (!is_sha256(hex)) {
    bytes.append(32, '\0');
    return;
  }
  const auto nibble = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (std::size_t i = 0; i < 64; i += 2) bytes.push_back(static_cast<char>(nibble(hex[i]) << 4 | nibble(hex[i + 1])));
}

}  // namespace pe::support
