// Products of fp32 matrices in bf16 with fp32 sums, on CPUs with AMX, by oneDNN's micro-kernel that LibTorch exports
// (ATen/native/CPUBlas.h). Operands are rounded to the nearest bf16 while they are packed.
#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "kernels/dispatch.h"
#include "kernels/product_bf16.h"

namespace pe::kernels {
namespace {

using at::BFloat16;
using at::Tensor;

// A panel of B is kDepth x kColumns: 128 KiB, which stays in a core's second cache while rows of A go past it.
constexpr std::int64_t kRows = 32, kColumns = 64, kDepth = 1024;

std::uint16_t rounded(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40);   // stays a NaN
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);   // to the nearest, ties to even
}

/// A matrix in memory: element (i, j) at data[i · row + j · column].
struct Source {
  const float* data;
  std::int64_t row, column;
  float at(std::int64_t i, std::int64_t j) const { return data[i * row + j * column]; }
};

/// Rows [first, last) of A, each `padded` long, which is `depth` or one more.
void round_rows(const Source& a, std::int64_t first, std::int64_t last, std::int64_t depth, std::int64_t padded, std::uint16_t* to) {
  constexpr std::int64_t kTile = 32;   // of a transposed matrix: a cache line each way
  for (std::int64_t i = first; i < last; i += kTile) {
    const std::int64_t rows = std::min(kTile, last - i);
    if (a.column == 1) {
      for (std::int64_t r = i; r < i + rows; ++r) {
        const float* from = a.data + r * a.row;
        for (std::int64_t j = 0; j < depth; ++j) to[r * padded + j] = rounded(from[j]);
      }
    } else {
      for (std::int64_t j = 0; j < depth; j += kTile) {
        const std::int64_t columns = std::min(kTile, depth - j);
        std::uint16_t tile[kTile][kTile];
        for (std::int64_t c = 0; c < columns; ++c)
          for (std::int64_t r = 0; r < rows; ++r) tile[r][c] = rounded(a.at(i + r, j + c));
        for (std::int64_t r = 0; r < rows; ++r) std::memcpy(to + (i + r) * padded + j, tile[r], static_cast<std::size_t>(columns) * 2);
      }
    }
    for (std::int64_t r = i; r < i + rows; ++r)
      if (padded > depth) to[r * padded + depth] = 0;
  }
}

/// Columns [column, column + count) of B as the micro-kernel reads them: pairs of rows side by side, [padded/2][kColumns][2].
void pack_panel(const Source& b, std::int64_t column, std::int64_t count, std::int64_t depth, std::int64_t padded, std::uint16_t* to) {
  if (count < kColumns || padded > depth) std::memset(to, 0, static_cast<std::size_t>(padded * kColumns) * 2);
  if (b.column == 1) {
    for (std::int64_t k = 0; k < depth; ++k) {
      const float* from = b.data + k * b.row + column;
      std::uint16_t* pairs = to + k / 2 * kColumns * 2 + k % 2;
      for (std::int64_t j = 0; j < count; ++j) pairs[2 * j] = rounded(from[j]);
    }
    return;
  }
  constexpr std::int64_t kTile = 32;   // rows of B, which lie side by side where B is transposed
  for (std::int64_t k = 0; k < depth; k += kTile) {
    const std::int64_t rows = std::min(kTile, depth - k);
    std::uint16_t tile[kColumns][kTile];
    for (std::int64_t j = 0; j < count; ++j)
      for (std::int64_t r = 0; r < rows; ++r) tile[j][r] = rounded(b.at(k + r, column + j));
    for (std::int64_t r = 0; r < rows; ++r) {
      std::uint16_t* pairs = to + (k + r) / 2 * kColumns * 2 + (k + r) % 2;
      for (std::int64_t j = 0; j < count; ++j) pairs[2 * j] = tile[j][r];
    }
  }
}

bool wanted = false;

}  // namespace

bool can_multiply_in_bf16() { return at::native::cpublas::could_pack(at::kBFloat16); }

void multiply_in_bf16(bool yes) { wanted = yes; }

bool multiplies_in_bf16(const Tensor& x) { return wanted && cpu_for(x) != nullptr; }

void product_in_bf16(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) {
  const std::int64_t rows = a.size(0), depth = a.size(1), columns = b.size(1), padded = depth + depth % 2;
  if (rows == 0 || columns == 0) return;
  if (depth == 0) {
    if (!accumulate) c.zero_();
    return;
  }
  const std::int64_t panels = (columns + kColumns - 1) / kColumns, blocks = (rows + kRows - 1) / kRows;
  const Tensor a16 = at::empty({rows, padded}, a.options().dtype(at::kBFloat16));
  const Tensor b16 = at::empty({panels, padded * kColumns}, b.options().dtype(at::kBFloat16));
  const Source from_a{a.data_ptr<float>(), a.stride(0), a.stride(1)}, from_b{b.data_ptr<float>(), b.stride(0), b.stride(1)};
  auto* pa = static_cast<std::uint16_t*>(a16.mutable_data_ptr());
  auto* pb = static_cast<std::uint16_t*>(b16.mutable_data_ptr());
  const auto grain = [&](std::int64_t work) { return std::max<std::int64_t>(1, (std::int64_t{1} << 15) / std::max<std::int64_t>(1, work)); };
  at::parallel_for(0, blocks, grain(kRows * depth), [&](std::int64_t first, std::int64_t last) {
    round_rows(from_a, first * kRows, std::min(rows, last * kRows), depth, padded, pa);
  });
  at::parallel_for(0, panels, grain(kColumns * depth), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t panel = first; panel < last; ++panel) {
      const std::int64_t column = panel * kColumns;
      pack_panel(from_b, column, std::min(kColumns, columns - column), depth, padded, pb + panel * padded * kColumns);
    }
  });
  float* pc = c.data_ptr<float>();
  const std::int64_t row = c.stride(0);
  // Each element is summed by one thread, over blocks of the depth in their order: threads change no bits.
  at::parallel_for(0, panels * blocks, grain(kRows * kColumns * depth / 16), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t from = 0; from < padded; from += kDepth) {
      const std::int64_t deep = std::min(kDepth, padded - from);
      for (std::int64_t tile = first; tile < last; ++tile) {
        const std::int64_t panel = tile / blocks, i = tile % blocks * kRows, j = panel * kColumns;
        at::native::cpublas::brgemm(std::min(kRows, rows - i), std::min(kColumns, columns - j), deep, padded, kColumns, row,
                                    accumulate || from > 0, reinterpret_cast<const BFloat16*>(pa) + i * padded + from,
                                    reinterpret_cast<const BFloat16*>(pb) + panel * padded * kColumns + from * kColumns,
                                    pc + i * row + j);
      }
    }
    at::native::cpublas::brgemm_release();   // else the next vector code of this thread runs beside the tiles' state
  });
}

}  // namespace pe::kernels
