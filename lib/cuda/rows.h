/// @file
/// The arithmetic of the row kernels, for host and device alike. A body is the work of one lane of a team on one row,
/// or the work on one cell. The file kernels.cu runs bodies on a GPU, and the tests run the same ones on the CPU.
///
/// A row body has `partial(row, lane)`, the lane's term of the row's sum, and `finish(row, lane, sum)`. A cell body
/// has `operator()(row, column)`. heads.h and loss.h have bodies of other forms. Sums are taken lane by lane and then
/// in pairs, so that their order never changes. Values are fp32 or bf16; sums, weights of norms and everything between
/// reading and writing are fp32.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda/plugin.h"

#if defined(__CUDACC__)
#define PE_BOTH __host__ __device__ __forceinline__
#define PE_UNROLL _Pragma("unroll")  // so that indices are constants, and arrays are in registers
#else
#define PE_BOTH inline
#define PE_UNROLL
#endif

namespace pe::cuda {

inline constexpr int kLanes = 32;  ///< of a team: a warp
inline constexpr int kTeams = 8;   ///< of a block

/// `n` values that are read and written together. Rows of a multiple of n values are aligned to it.
template <typename Value, int n>
struct alignas(sizeof(Value) * n) Pack {
  Value at[n];
};

#if defined(__CUDACC__)
/// A value that one instruction moves. Packs go through it, since their members would be moved one by one.
template <std::size_t bytes>
struct Word;
template <>
struct Word<2> {
  using Type = unsigned short;
};
template <>
struct Word<4> {
  using Type = unsigned;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};
#endif

template <int n, typename Value>
PE_BOTH Pack<Value, n> load(const Value* from) {
  Pack<Value, n> pack;
#if defined(__CUDA_ARCH__)
  using Moved = typename Word<sizeof pack>::Type;
  const Moved word = *reinterpret_cast<const Moved*>(from);
  std::memcpy(static_cast<void*>(&pack), &word, sizeof pack);
#else
  std::memcpy(static_cast<void*>(&pack), from, sizeof pack);
#endif
  return pack;
}

template <int n, typename Value>
PE_BOTH void store(Value* to, const Pack<Value, n>& pack) {
#if defined(__CUDA_ARCH__)
  using Moved = typename Word<sizeof pack>::Type;
  Moved word;
  std::memcpy(&word, static_cast<const void*>(&pack), sizeof pack);
  __stwb(reinterpret_cast<Moved*>(to), word);  // an assignment may be taken apart again
#else
  std::memcpy(static_cast<void*>(to), &pack, sizeof pack);
#endif
}

// ---- RMSNorm --------------------------------------------------------------------------------------------------------

/// y = x · rstd · w, rstd = 1/sqrt(mean(x²) + eps). With `delta` the norm is of x + delta, rounded to Value and kept in
/// `sum`.
template <typename Value, int n>
struct NormForward {
  const Value *x, *delta;
  const float* weight;
  Value *sum, *y;
  float* rstd;
  std::int64_t width;
  float eps;

  PE_BOTH Pack<Value, n> input(std::int64_t at) const {
    Pack<Value, n> own = load<n>(x + at);
    if (delta == nullptr) return own;
    const Pack<Value, n> more = load<n>(delta + at);
    for (int j = 0; j < n; ++j) {
      own.at[j] = static_cast<Value>(static_cast<float>(own.at[j]) + static_cast<float>(more.at[j]));
    }
    return own;
  }
  PE_BOTH float partial(std::int64_t row, int lane) const {
    float squares = 0;
    for (std::int64_t i = lane * n; i < width; i += kLanes * n) {
      const Pack<Value, n> in = input(row * width + i);
      for (int j = 0; j < n; ++j) squares += static_cast<float>(in.at[j]) * static_cast<float>(in.at[j]);
    }
    return squares;
  }
  PE_BOTH void finish(std::int64_t row, int lane, float squares) const {
    const float scale = 1.0F / sqrtf(squares / static_cast<float>(width) + eps);
    if (lane == 0) rstd[row] = scale;
    for (std::int64_t i = lane * n; i < width; i += kLanes * n) {
      const Pack<Value, n> in = input(row * width + i);
      if (delta != nullptr) store<n>(sum + row * width + i, in);
      Pack<Value, n> out;
      for (int j = 0; j < n; ++j) out.at[j] = static_cast<Value>(static_cast<float>(in.at[j]) * scale * weight[i + j]);
      store<n>(y + row * width + i, out);
    }
  }
};

/// dx = add + dy·w·rstd − x·rstd³·mean(dy·w·x); `add` may be null.
template <typename Value, int n>
struct NormBackward {
  const Value *dy, *x;
  const float *weight, *rstd;
  const Value* add;
  Value* dx;
  std::int64_t width;

  PE_BOTH float partial(std::int64_t row, int lane) const {
    float dot = 0;
    for (std::int64_t i = lane * n; i < width; i += kLanes * n) {
      const Pack<Value, n> g = load<n>(dy + row * width + i), in = load<n>(x + row * width + i);
      for (int j = 0; j < n; ++j) dot += static_cast<float>(g.at[j]) * weight[i + j] * static_cast<float>(in.at[j]);
    }
    return dot;
  }
  PE_BOTH void finish(std::int64_t row, int lane, float dot) const {
    const float scale = rstd[row], pull = dot * scale * scale * scale / static_cast<float>(width);
    for (std::int64_t i = lane * n; i < width; i += kLanes * n) {
      const std::int64_t at = row * width + i;
      const Pack<Value, n> g = load<n>(dy + at), in = load<n>(x + at);
      Pack<Value, n> more{}, out;
      if (add != nullptr) more = load<n>(add + at);
      for (int j = 0; j < n; ++j) {
        float d = static_cast<float>(g.at[j]) * weight[i + j] * scale - static_cast<float>(in.at[j]) * pull;
        if (add != nullptr) d += static_cast<float>(more.at[j]);
        out.at[j] = static_cast<Value>(d);
      }
      store<n>(dx + at, out);
    }
  }
};

/// The same for rows of at most kHeld · kLanes packs, which stay with the lanes, so that the gradient by the weight
/// costs no second reading. A tile body: see `TileParts`.
template <typename Value, int n, int kHeld>
struct NormBackwardTile {
  static constexpr int kSums = kHeld * n;
  static constexpr int kAtOnce = kHeld > 4   ? 1
                                 : kHeld > 2 ? 2
                                             : 3;  ///< blocks that a multiprocessor's registers are to hold
  NormBackward<Value, n> of;

  struct Own {
    Pack<Value, n> g[kHeld], in[kHeld];
    float sums[kSums];
  };

  PE_BOTH std::int64_t column(int lane, int i) const { return (lane + i / n * kLanes) * n + i % n; }

  PE_BOTH float partial(std::int64_t row, int lane, Own& own) const {
    PE_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      const std::int64_t at = (lane + i * kLanes) * n;
      own.g[i] = own.in[i] = {};
      if (at >= of.width) continue;
      own.g[i] = load<n>(of.dy + row * of.width + at);
      own.in[i] = load<n>(of.x + row * of.width + at);
    }
    float dot = 0;
    PE_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      const std::int64_t at = (lane + i * kLanes) * n;
      if (at >= of.width) continue;
      PE_UNROLL
      for (int j = 0; j < n; ++j)
        dot += static_cast<float>(own.g[i].at[j]) * of.weight[at + j] * static_cast<float>(own.in[i].at[j]);
    }
    return dot;
  }

  PE_BOTH void finish(std::int64_t row, int lane, Own& own, float dot) const {
    const float scale = of.rstd[row], pull = dot * scale * scale * scale / static_cast<float>(of.width);
    PE_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      const std::int64_t at = (lane + i * kLanes) * n;
      if (at >= of.width) continue;
      Pack<Value, n> more{}, out;
      if (of.add != nullptr) more = load<n>(of.add + row * of.width + at);
      PE_UNROLL
      for (int j = 0; j < n; ++j) {
        const float g = static_cast<float>(own.g[i].at[j]), x = static_cast<float>(own.in[i].at[j]);
        own.sums[i * n + j] += g * x * scale;
        out.at[j] = static_cast<Value>(g * of.weight[at + j] * scale - x * pull + static_cast<float>(more.at[j]));
      }
      store<n>(of.dx + row * of.width + at, out);
    }
  }
};

/// The term that a row adds to the gradient by the norm's weight.
template <typename Value>
struct NormWeightTerm {
  const Value *dy, *x;
  const float* rstd;
  std::int64_t width;
  PE_BOTH float operator()(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * width + column;
    return static_cast<float>(dy[at]) * static_cast<float>(x[at]) * rstd[row];
  }
};

// ---- Sums over rows, in two stages ----------------------------------------------------------------------------------

/// Cell (part, column): the sum of `term` over the rows of the part, in order.
template <typename Term>
struct PartSums {
  Term term;
  float* parts;  ///< [parts, width]
  std::int64_t rows, step, width;
  PE_BOTH void operator()(std::int64_t part, std::int64_t column) const {
    const std::int64_t first = part * step, end = first + step < rows ? first + step : rows;
    float sum = 0;
    for (std::int64_t row = first; row < end; ++row) sum += term(row, column);
    parts[part * width + column] = sum;
  }
};

/// The same sums as a by-product of a walk over the rows. A tile body has for each lane an `Own`, whose `sums`
/// begin at 0. For every row it has `partial`, summed over the lanes, and `finish`. Its sums are of `column(lane, i)`,
/// or of no column past the width. The teams of a block share a part's rows, and add up in their order.
template <typename Body>
struct TileParts {
  Body body;
  float* parts;  ///< [parts, width]
  std::int64_t rows, step, width;
};

/// "Row" i is column i: gradient[i] += the parts' sums.
struct FoldParts {
  const float* parts;
  float* gradient;
  std::int64_t count, width;
  PE_BOTH float partial(std::int64_t column, int lane) const {
    float sum = 0;
    for (std::int64_t part = lane; part < count; part += kLanes) sum += parts[part * width + column];
    return sum;
  }
  PE_BOTH void finish(std::int64_t column, int lane, float sum) const {
    if (lane == 0) gradient[column] += sum;
  }
};

/// delta = Σ dout·out − dlse, "columns" are rows (sequence, head, query) of attention; `dlse` may be null. Each lane
/// has a row: a row's few loads are all under way together, and nothing has to be summed over lanes.
template <typename Value>
struct RowProducts {
  PeCudaAttention of;
  const Value *dout, *out;
  const float* dlse;
  float* delta;

  PE_BOTH void operator()(std::int64_t, std::int64_t row) const {
    constexpr int n = 8, kTogether = 4;  // packs; widths are multiples of 32
    const auto i = static_cast<std::uint32_t>(row), queries = static_cast<std::uint32_t>(of.queries),
               heads = static_cast<std::uint32_t>(of.heads);
    const std::uint32_t head_row = i / queries, query = i - head_row * queries, sequence = head_row / heads,
                        head = head_row - sequence * heads;
    const auto start = [&](const PeCudaStrides& strides) {
      return sequence * strides.by_sequence + head * strides.by_head + query * strides.by_row;
    };
    const Value *a = dout + start(of.dout), *b = out + start(of.out);
    float sum = 0;
    for (std::int64_t first = 0; first < of.width; first += kTogether * n) {
      Pack<Value, n> x[kTogether], y[kTogether];
      PE_UNROLL
      for (int pack = 0; pack < kTogether; ++pack)
        x[pack] = load<n>(a + first + pack * n), y[pack] = load<n>(b + first + pack * n);
      PE_UNROLL
      for (int pack = 0; pack < kTogether; ++pack) {
        PE_UNROLL
        for (int j = 0; j < n; ++j) sum += static_cast<float>(x[pack].at[j]) * static_cast<float>(y[pack].at[j]);
      }
    }
    delta[row] = dlse == nullptr ? sum : sum - dlse[row];
  }
};

// ---- SwiGLU ---------------------------------------------------------------------------------------------------------

PE_BOTH float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

/// Columns are packs of n. a = silu(gate) · up; a row of gate_up is gate, then up.
template <typename Value, int n>
struct SwigluForward {
  const Value* gate_up;
  Value* a;
  std::int64_t inner;
  PE_BOTH void operator()(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * 2 * inner + column * n;
    const Pack<Value, n> gate = load<n>(gate_up + at), up = load<n>(gate_up + at + inner);
    Pack<Value, n> out;
    for (int j = 0; j < n; ++j) {
      const float g = static_cast<float>(gate.at[j]);
      out.at[j] = static_cast<Value>(g * sigmoid(g) * static_cast<float>(up.at[j]));
    }
    store<n>(a + row * inner + column * n, out);
  }
};

template <typename Value, int n>
struct SwigluBackward {
  const Value *da, *gate_up;
  Value* dgate_up;
  std::int64_t inner;
  PE_BOTH void operator()(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * 2 * inner + column * n;
    const Pack<Value, n> gate = load<n>(gate_up + at), up = load<n>(gate_up + at + inner);
    const Pack<Value, n> d = load<n>(da + row * inner + column * n);
    Pack<Value, n> dgate, dup;
    for (int j = 0; j < n; ++j) {
      const float g = static_cast<float>(gate.at[j]), s = sigmoid(g), wanted = static_cast<float>(d.at[j]);
      dgate.at[j] = static_cast<Value>(wanted * static_cast<float>(up.at[j]) * s * (1.0F + g * (1.0F - s)));
      dup.at[j] = static_cast<Value>(wanted * g * s);
    }
    store<n>(dgate_up + at, dgate);
    store<n>(dgate_up + at + inner, dup);
  }
};

// ---- AdamW ----------------------------------------------------------------------------------------------------------

/// The update of n weights (Loshchilov and Hutter 2019; with `coupled` Kingma and Ba 2015), their gradients divided by
/// the divisor first, and their low-precision copies where there are some.
template <typename Half, int n>
struct AdamStep {
  PeCudaAdam with;

  PE_BOTH void operator()(std::int64_t, std::int64_t pack) const {
    if (with.verdict != nullptr && with.verdict[1] != 0.0F) return;
    const float divisor = with.verdict == nullptr ? with.divisor : with.verdict[0];
    const std::int64_t at = pack * n;
    Pack<float, n> values = load<n>(with.values + at), first = load<n>(with.first + at),
                   second = load<n>(with.second + at);
    const Pack<float, n> gradients = load<n>(with.gradients + at);
    Pack<Half, n> shadow;
    PE_UNROLL
    for (int j = 0; j < n; ++j) {
      float value = values.at[j], g = gradients.at[j] / divisor;
      if (with.coupled)
        g += with.decay * value;
      else
        value -= with.lr * with.decay * value;
      first.at[j] += (1.0F - with.beta1) * (g - first.at[j]);
      second.at[j] = with.beta2 * second.at[j] + (1.0F - with.beta2) * g * g;
      value -= with.lr / with.correction1 * first.at[j] / (sqrtf(second.at[j]) / sqrtf(with.correction2) + with.eps);
      values.at[j] = value;
      shadow.at[j] = static_cast<Half>(value);
    }
    store<n>(with.first + at, first);
    store<n>(with.second + at, second);
    store<n>(with.values + at, values);
    if (with.shadow != nullptr) store<n>(static_cast<Half*>(with.shadow) + at, shadow);
  }
};

}  // namespace pe::cuda
