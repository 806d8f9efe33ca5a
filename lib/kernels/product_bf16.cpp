// Products of fp32 matrices in bf16 with fp32 sums: our packing and tiles (cpu_bf16.inc). On CPUs with AMX the tiles
// are oneDNN's micro-kernel, which LibTorch exports (ATen/native/CPUBlas.h) and which reads the same packed memory.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels/dispatch.h"
#include "kernels/product_bf16.h"

namespace pe::kernels {
namespace {

using at::BFloat16;
using at::Tensor;

const Bf16Table* chosen = nullptr;

/// The sums of a block restart after so many pairs: the block's part of both operands stays in a core's caches.
constexpr std::int64_t kPairs = 256;

void multiply_by_amx(const Bf16Block& block) {
  at::native::cpublas::brgemm(block.rows, block.columns, 2 * block.pairs, 2 * block.a_row, kBf16Columns, block.c_row,
                              block.add, reinterpret_cast<const BFloat16*>(block.a),
                              reinterpret_cast<const BFloat16*>(block.b), block.c);
}

void release_amx() { at::native::cpublas::brgemm_release(); }

std::int64_t parts(std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; }

/// Pieces of so much work that a thread has tens of microseconds to do.
std::int64_t grain(std::int64_t work) {
  return std::max<std::int64_t>(1, (std::int64_t{1} << 15) / std::max<std::int64_t>(1, work));
}

Tensor readable(const Tensor& x) { return x.stride(0) == 1 || x.stride(1) == 1 ? x : x.contiguous(); }

Tensor pairs_memory(std::int64_t rows, std::int64_t pairs, const Tensor& like) {
  return at::empty({rows, pairs}, like.options().dtype(at::kInt));
}

}  // namespace

const Bf16Table* bf16_table_of(Bf16Unit by) {
  if (by == Bf16Unit::kNone) return nullptr;
  if (by == Bf16Unit::kPlain) return &plain_bf16_table(at::get_cpu_capability());
  const Bf16Table* own = avx512_bf16_table();
  if (own == nullptr || by == Bf16Unit::kAvx512) return own;
  if (!at::native::cpublas::could_pack(at::kBFloat16)) return nullptr;
  static const Bf16Table amx{own->pack_rows, own->pack_columns, multiply_by_amx, release_amx};
  return &amx;
}

bool can_multiply_in_bf16(Bf16Unit by) { return by == Bf16Unit::kNone || bf16_table_of(by) != nullptr; }

void multiply_in_bf16(Bf16Unit by) { chosen = bf16_table_of(by); }

const char* name_of(Bf16Unit by) {
  if (by == Bf16Unit::kPlain) return "fp32 arithmetic";
  return by == Bf16Unit::kAmx ? "AMX" : "AVX512-BF16";
}

const Bf16Table* bf16_products_of(const Tensor& x) { return cpu_for(x) != nullptr ? chosen : nullptr; }

void product_in_bf16(const Bf16Table& table, const Tensor& left, const Tensor& right, const Tensor& c,
                     bool accumulate) {
  const Tensor a = readable(left), b = readable(right);
  const std::int64_t rows = a.size(0), depth = a.size(1), columns = b.size(1);
  if (rows == 0 || columns == 0) return;
  if (depth == 0) {
    if (!accumulate) c.zero_();
    return;
  }
  // A row or column alone has a stride that means nothing.
  const GemmShape shape{rows, columns, depth, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0)};
  const std::int64_t pairs = bf16_pairs(depth), row = bf16_row(depth);
  const std::int64_t pieces = parts(rows, kBf16PackedRows), panels = parts(columns, kBf16Columns),
                     blocks = parts(rows, kBf16Rows);
  const Tensor packed_a = pairs_memory(pieces * kBf16PackedRows, row, a),
               packed_b = pairs_memory(panels, pairs * kBf16Columns, b);
  auto* pa = static_cast<std::uint32_t*>(packed_a.mutable_data_ptr());
  auto* pb = static_cast<std::uint32_t*>(packed_b.mutable_data_ptr());
  const float *from_a = a.data_ptr<float>(), *from_b = b.data_ptr<float>();
  at::parallel_for(0, pieces, grain(kBf16PackedRows * depth),
                   [&](std::int64_t first, std::int64_t last) { table.pack_rows(shape, from_a, pa, first, last); });
  at::parallel_for(0, panels, grain(kBf16Columns * depth),
                   [&](std::int64_t first, std::int64_t last) { table.pack_columns(shape, from_b, pb, first, last); });
  float* to = c.data_ptr<float>();
  // Each element is summed by one thread, over stretches of the depth in their order: threads change no bits.
  at::parallel_for(0, panels * blocks, grain(kBf16Rows * kBf16Columns * depth / 16),
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t from = 0; from < pairs; from += kPairs) {
                       for (std::int64_t at = first; at < last; ++at) {
                         const std::int64_t panel = at / blocks, i = at % blocks * kBf16Rows, j = panel * kBf16Columns;
                         const Bf16Block block{.a = pa + i * row + from,
                                               .a_row = row,
                                               .b = pb + (panel * pairs + from) * kBf16Columns,
                                               .c = to + i * shape.c_row + j,
                                               .c_row = shape.c_row,
                                               .rows = std::min(kBf16Rows, rows - i),
                                               .columns = std::min(kBf16Columns, columns - j),
                                               .pairs = std::min(kPairs, pairs - from),
                                               .add = accumulate || from > 0};
                         table.multiply(block);
                       }
                     }
                     if (table.release != nullptr) table.release();
                   });
}

}  // namespace pe::kernels
