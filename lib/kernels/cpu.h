/// @file
/// Fused fp32 kernels for the CPU, on ranges of rows; callers split the rows among threads. One form per instruction
/// set, chosen to match the one that LibTorch took (`compute.isa`). None of them keeps state; all reduce in a fixed
/// order. The same mathematics in plain tensor operations is in ops_plain.cpp, for other devices and dtypes.
#pragma once

#include <cstdint>
#include <string_view>

namespace pe::kernels {

/// Where head h, row (b, t) of a tensor begins: base + b · batch + h · head + t · row; d_h values follow each other.
struct HeadStrides {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
};

/// The shape of one projection's heads. Row r of the packed matrix is token (r / T, r % T).
struct HeadShape {
  std::int64_t length = 0;  ///< T
  std::int64_t heads = 0;
  std::int64_t width = 0;       ///< d_h
  std::int64_t packed_row = 0;  ///< columns of the packed matrix
};

/// Wider heads are split without a rotation.
inline constexpr std::int64_t kWidestRotatedHead = 512;

/// A rotation of heads: token t of sequence b has `pairs` cosines from cos[b · batch + t · row] on, and sines. Null:
/// none.
struct HeadRotation {
  const float *cos = nullptr, *sin = nullptr;
  std::int64_t pairs = 0;
  std::int64_t batch = 0, row = 0;
  bool half = true;  ///< pair p is (p, p + pairs); else (2p, 2p + 1)
};

/// C[rows, columns] = A[rows, depth] · B[depth, columns]; element (i, j) of A is a[i · a_row + j · a_depth], and so on.
/// C is row-major.
struct GemmShape {
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t a_row = 0, a_depth = 0;
  std::int64_t b_depth = 0, b_column = 0;
  std::int64_t c_row = 0;
};
inline constexpr std::int64_t kBlockDepth = 128, kBlockColumns = 512;
inline constexpr std::int64_t kGemmScratch = kBlockDepth * (kBlockColumns + 8);  ///< floats

/// Causal attention: q [B,H,T,d_h], k [B,G,S,d_h], v and out [B,·,·,d_v]. Query row t is key row S − T + t and sees
/// the keys up to it. Logits are scale · q·k, plus the table's entry for the distance.
struct AttentionShape {
  std::int64_t batch = 0, heads = 0, groups = 0, queries = 0, keys = 0, width = 0, value_width = 0;
  HeadStrides q, k, v, out, dout;
  const float* table = nullptr;          ///< [H, S], by distance; null: no bias
  const std::int64_t* starts = nullptr;  ///< [S] or [B, S]: the first key row that a row at that place sees; null: 0
  std::int64_t starts_batch = 0;
  float scale = 1;
};

/// One after the other: dq [B,H,T,d_h], dk [B,G,S,d_h], dv [B,G,S,d_v], and, unless null, a table's for each sequence,
/// [B,H,S]. All are overwritten.
struct AttentionGradients {
  float *q = nullptr, *k = nullptr, *v = nullptr, *table = nullptr;
};

inline constexpr std::int64_t kAttentionRows = 64;   ///< query rows of a piece of work
inline constexpr std::int64_t kAttentionKeys = 256;  ///< keys whose logits a row holds at a time
constexpr std::int64_t attention_blocks(std::int64_t queries) {
  return (queries + kAttentionRows - 1) / kAttentionRows;
}

inline constexpr std::int64_t kMaxTileColumns = 32;
/// Floats of scratch memory for one caller of `attention` and of `attention_backward`.
constexpr std::int64_t attention_scratch(const AttentionShape& s) {
  const auto padded = [](std::int64_t n) { return n + kMaxTileColumns; };
  return padded(s.keys) * (s.width + padded(s.value_width) + 1) + 8 * (kAttentionKeys + padded(s.value_width));
}
constexpr std::int64_t attention_backward_scratch(const AttentionShape& s) {
  const auto padded = [](std::int64_t n) { return n + kMaxTileColumns; };
  return padded(s.keys) * (s.width + s.value_width + padded(s.width) + 2) +
         32 * (padded(s.width) + padded(s.value_width) + 2 * kAttentionKeys);
}

// ---- Products in bf16 with fp32 sums, of fp32 matrices -------------------------------------------------------------
//
// Both operands are rounded to the nearest bf16 into packed memory, whose numbers are pairs of bf16 that follow each
// other along the depth. A is in rows of bf16_row(depth) pairs. B is in panels of kBf16Columns columns,
// [bf16_pairs(depth)][columns].

inline constexpr std::int64_t kBf16Rows = 64, kBf16Columns = 64;  ///< of a block of C
inline constexpr std::int64_t kBf16PackedRows = 16;               ///< rows of A are packed so many at a time
constexpr std::int64_t bf16_pairs(std::int64_t depth) { return (depth + 31) / 32 * 16; }
/// Rows do not begin a power of two apart: caches keep few lines of the same last digits.
constexpr std::int64_t bf16_row(std::int64_t depth) { return bf16_pairs(depth) + 16; }

/// At most kBf16Rows × kBf16Columns of C, over a stretch of the depth. With `add`, sums begin with the old values of C.
struct Bf16Block {
  const std::uint32_t* a = nullptr;
  std::int64_t a_row = 0;
  const std::uint32_t* b = nullptr;
  float* c = nullptr;
  std::int64_t c_row = 0;
  std::int64_t rows = 0, columns = 0, pairs = 0;
  bool add = false;
};

struct Bf16Table {
  /// Pieces [first, last) of kBf16PackedRows rows of A; one of its strides is 1. Rows that A lacks are 0.
  void (*pack_rows)(const GemmShape& shape, const float* a, std::uint32_t* packed, std::int64_t first,
                    std::int64_t last);
  /// Panels [first, last) of B; one of its strides is 1. Columns that B lacks are 0.
  void (*pack_columns)(const GemmShape& shape, const float* b, std::uint32_t* packed, std::int64_t first,
                       std::int64_t last);
  void (*multiply)(const Bf16Block& block);
  /// After the last of a thread's products; null: nothing to do. With AMX it gives up the state of the tiles.
  void (*release)() = nullptr;
};

constexpr std::int64_t bf16_padded(std::int64_t columns) {
  return (columns + kBf16Columns - 1) / kBf16Columns * kBf16Columns;
}
/// Floats of scratch memory for one caller of `attention_in_bf16` and of `attention_in_bf16_backward`.
constexpr std::int64_t attention_in_bf16_scratch(const AttentionShape& s) {
  const std::int64_t keys = bf16_padded(s.keys), wide = bf16_padded(s.value_width);
  return keys * bf16_pairs(s.width) + wide * bf16_pairs(s.keys) + s.keys + 16 +
         kBf16Rows * (bf16_row(s.width) + kAttentionKeys + bf16_row(kAttentionKeys) + wide);
}
constexpr std::int64_t attention_in_bf16_backward_scratch(const AttentionShape& s) {
  const std::int64_t keys = bf16_padded(s.keys), wide = bf16_padded(s.width), wide_v = bf16_padded(s.value_width);
  return keys * (bf16_pairs(s.width) + bf16_pairs(s.value_width)) + wide * bf16_pairs(s.keys) + 2 * (s.keys + 16) +
         kBf16Rows * (bf16_row(s.width) + bf16_row(s.value_width) + 2 * kAttentionKeys + bf16_row(kAttentionKeys)) +
         bf16_pairs(kBf16Rows) * (wide + wide_v) + kAttentionKeys * bf16_row(kBf16Rows);
}

struct Table {
  const char* name;

  /// y = x · rstd · w with rstd = 1/sqrt(mean(x²) + eps), for rows [0, rows).
  void (*rms_norm)(const float* x, const float* w, float* y, float* rstd, std::int64_t rows, std::int64_t width,
                   float eps);
  /// dx = add + the gradient by x; dw += the gradient by w. `add` may be null; dx may alias it.
  void (*rms_norm_backward)(const float* dy, const float* x, const float* w, const float* rstd, const float* add,
                            float* dx, float* dw, std::int64_t rows, std::int64_t width);

  /// Heads out of a packed projection: out[b, h, t, :] = norm(packed[row, h · d_h …]), rows [first, last).
  /// `w` null: copied. rstd [rows, heads], unused without w. Then rotated, by products and sums that are each rounded,
  /// as encodings/rotary/rotary.cpp does: the same bytes with every instruction set.
  void (*split_heads)(const float* packed, const float* w, float eps, float* out, HeadStrides out_strides, float* rstd,
                      HeadShape shape, HeadRotation rotation, std::int64_t first, std::int64_t last);
  /// The inverse for gradients: dpacked from dout, and dw +=.
  void (*split_heads_backward)(const float* dout, HeadStrides dout_strides, const float* packed, const float* w,
                               const float* rstd, float* dpacked, float* dw, HeadShape shape, HeadRotation rotation,
                               std::int64_t first, std::int64_t last);

  /// a = silu(gate) · up, where a row of gate_up is gate, then up.
  void (*swiglu)(const float* gate_up, float* a, std::int64_t rows, std::int64_t inner);
  void (*swiglu_backward)(const float* da, const float* gate_up, float* dgate_up, std::int64_t rows,
                          std::int64_t inner);

  /// Per row: loss = logsumexp − logit of the target, and, with `gradient`, logits become softmax − one-hot.
  /// A negative target gives loss 0 and a zero row.
  void (*cross_entropy)(float* logits, const std::int64_t* targets, float* loss, std::int64_t rows,
                        std::int64_t vocabulary, bool gradient);

  /// Σ x², summed in float64 in 16 lanes: the same bytes with every instruction set.
  double (*sum_of_squares)(const float* x, std::int64_t count);

  /// Products with a narrow side, where a library's packing costs more than it gains; with `accumulate` added to C.
  /// Each element is summed in an order that only `depth` decides. Null where the library's own product is as good.
  void (*gemm)(GemmShape shape, const float* a, const float* b, float* c, float* scratch, bool accumulate);

  /// lse [B,H,T] is the logarithm of each row's sum. Pieces [first, last) of B · H · attention_blocks(T), in that order
  /// of dimensions: a caller that takes many of a head together packs its keys once.
  void (*attention)(const AttentionShape& shape, const float* q, const float* k, const float* v, float* out, float* lse,
                    std::int64_t first, std::int64_t last, float* scratch);
  /// @param dlse [B,H,T] or null. Pieces [first, last) of B · G.
  void (*attention_backward)(const AttentionShape& shape, const float* q, const float* k, const float* v,
                             const float* out, const float* dout, const float* lse, const float* dlse,
                             AttentionGradients to, std::int64_t first, std::int64_t last, float* scratch);

  /// The same, all products by `by` in bf16 with fp32 sums. Queries, keys, values, weights, incoming gradients and
  /// slopes of logits are rounded when they are packed. Logits, softmax and results stay fp32.
  void (*attention_in_bf16)(const Bf16Table& by, const AttentionShape& shape, const float* q, const float* k,
                            const float* v, float* out, float* lse, std::int64_t first, std::int64_t last,
                            float* scratch);
  void (*attention_in_bf16_backward)(const Bf16Table& by, const AttentionShape& shape, const float* q, const float* k,
                                     const float* v, const float* out, const float* dout, const float* lse,
                                     const float* dlse, AttentionGradients to, std::int64_t first, std::int64_t last,
                                     float* scratch);
};

/// By AVX512-BF16; null where this CPU lacks it.
const Bf16Table* avx512_bf16_table();

/// By arithmetic in fp32, which every CPU has: the form for "AVX2", and for anything else "DEFAULT".
const Bf16Table& plain_bf16_table(std::string_view capability);

/// The form for an instruction set as LibTorch names it: "DEFAULT", "AVX2", "AVX512"; anything else gets DEFAULT.
const Table& table_for(std::string_view capability);

}  // namespace pe::kernels
