/// @file
/// Products in bf16 by plain loops, so that every CPU can run the kernels that multiply in bf16 (kernels/cpu.h,
/// Bf16Table). Without AVX512-BF16 or AMX only the packing and the tiles of lib/kernels/cpu_bf16.inc and oneDNN's
/// micro-kernel remain untested.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

#include "kernels/cpu.h"
#include "kernels/product_bf16.h"

namespace pe::test {

struct PortableBf16 {
  /// (even, odd), two rounded numbers that follow each other along the depth.
  static std::uint32_t pair(float even, float odd) {
    return c10::BFloat16(even).x | static_cast<std::uint32_t>(c10::BFloat16(odd).x) << 16;
  }

  static void pack_rows(const kernels::GemmShape& s, const float* a, std::uint32_t* packed, std::int64_t first,
                        std::int64_t last) {
    for (std::int64_t i = first * kernels::kBf16PackedRows; i < last * kernels::kBf16PackedRows; ++i) {
      const auto at = [&](std::int64_t k) { return i < s.rows && k < s.depth ? a[i * s.a_row + k * s.a_depth] : 0.0F; };
      for (std::int64_t p = 0; p < kernels::bf16_pairs(s.depth); ++p)
        packed[i * kernels::bf16_row(s.depth) + p] = pair(at(2 * p), at(2 * p + 1));
    }
  }

  static void pack_columns(const kernels::GemmShape& s, const float* b, std::uint32_t* packed, std::int64_t first,
                           std::int64_t last) {
    const std::int64_t pairs = kernels::bf16_pairs(s.depth);
    for (std::int64_t j = first * kernels::kBf16Columns; j < last * kernels::kBf16Columns; ++j) {
      const auto at = [&](std::int64_t k) {
        return j < s.columns && k < s.depth ? b[k * s.b_depth + j * s.b_column] : 0.0F;
      };
      std::uint32_t* panel =
          packed + j / kernels::kBf16Columns * pairs * kernels::kBf16Columns + j % kernels::kBf16Columns;
      for (std::int64_t p = 0; p < pairs; ++p) panel[p * kernels::kBf16Columns] = pair(at(2 * p), at(2 * p + 1));
    }
  }

  static float number(std::uint32_t bits) {
    const std::uint32_t shifted = bits << 16;
    float value;
    __builtin_memcpy(&value, &shifted, sizeof value);
    return value;
  }

  // Sums of one row are neighbours, which a compiler adds many at a time.
  __attribute__((optimize("O3"))) static void multiply(const kernels::Bf16Block& block) {
    for (std::int64_t i = 0; i < block.rows; ++i) {
      float sums[kernels::kBf16Columns] = {};
      for (std::int64_t p = 0; p < block.pairs; ++p) {
        const std::uint32_t a = block.a[i * block.a_row + p];
        const float even = number(a), odd = number(a >> 16);
        for (std::int64_t j = 0; j < kernels::kBf16Columns; ++j) {
          const std::uint32_t b = block.b[p * kernels::kBf16Columns + j];
          sums[j] += even * number(b);
          sums[j] += odd * number(b >> 16);
        }
      }
      float* c = block.c + i * block.c_row;
      for (std::int64_t j = 0; j < block.columns; ++j) c[j] = block.add ? c[j] + sums[j] : sums[j];
    }
  }

  static inline const kernels::Bf16Table table{pack_rows, pack_columns, multiply};
};

/// While it lives, the loops multiply where this CPU cannot; afterwards nothing does in bf16.
struct Bf16OnAnyCpu {
  Bf16OnAnyCpu() {
    if (!kernels::can_multiply_in_bf16()) kernels::set_bf16_test_table(&PortableBf16::table);
  }
  ~Bf16OnAnyCpu() {
    kernels::set_bf16_test_table(nullptr);
    kernels::multiply_in_bf16(kernels::Bf16Unit::kNone);
  }
};

}  // namespace pe::test
