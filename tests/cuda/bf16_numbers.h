/// @file
/// bf16 numbers for stand-ins, which do not use LibTorch.
#pragma once

#include <cstdint>
#include <cstring>

namespace pe::stand_in {

/// A bf16 number is the upper half of an fp32 number.
inline float wide(std::uint16_t half) {
  const std::uint32_t bits = std::uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline std::uint16_t narrow(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);  // to the nearest, ties to even
}

}  // namespace pe::stand_in
