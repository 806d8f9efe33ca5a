/// @file
/// Numbers of 16 bits and float32: bfloat16, and IEEE half precision. Rounding is to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace pe::support {

inline float float_of_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

inline std::uint16_t bf16_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<std::uint16_t>(bits >> 16 | 0x40);  // NaN
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline float float_of_f16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3FF;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -small : small;
}

inline std::uint16_t f16_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t size = bits & 0x7FFFFFFF;
  if (size > 0x7F800000) return sign | 0x7E00;
  if (size >= 0x477FF000) return sign | 0x7C00;  // beyond the largest number, which is 65504
  if (size < 0x38800000) {                       // no normal number: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(size) * 0x1p24f;
    const auto below = static_cast<std::uint32_t>(scaled);
    const float rest = scaled - static_cast<float>(below);
    return static_cast<std::uint16_t>(sign | (below + (rest > 0.5f || (rest == 0.5f && below % 2 == 1) ? 1u : 0u)));
  }
  const std::uint32_t shifted = size - (112u << 23);
  return static_cast<std::uint16_t>(sign | (shifted + 0xFFF + (shifted >> 13 & 1)) >> 13);
}

}  // namespace pe::support
