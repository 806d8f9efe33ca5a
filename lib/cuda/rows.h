/// @file
/// The arithmetic of the row kernels, for host and device alike. A body says what one lane of a team does with one row, or
/// what happens to one cell; kernels.cu runs bodies on a GPU, the tests run the same ones on the CPU.
///
/// A row body has `partial(row, lane)`, what the lane adds to the row's sum, and `finish(row, lane, sum)`. A cell body has
/// `operator()(row, column)`. heads.h and loss.h have bodies of other forms. Sums are taken lane by lane and then in pairs, so that their order never changes.
/// Values are fp32 or bf16; sums, weights of norms and everything between reading and writing are fp32.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda/plugin.h"

#if defined(__CUDACC__)
#define PE_BOTH __host__ __device__ __forceinline__
#define PE_UNROLL _Pragma("unroll")   // so that indices are constants, and arrays lie in registers
#else
#define PE_BOTH inline
#define PE_UNROLL
#endif

namespace pe::cuda {

inline constexpr int kLanes = 32;   ///< of a team: a warp

/// `n` values that are read and written in one go. Rows of a multiple of n values lie aligned to it.
template <typename Value, int n>
struct alignas(sizeof(Value) * n) Pack {
  Value at[n];
};

#if defined(__CUDACC__)
/// What the hardware moves at once. Packs go through it, since their members one by one would be moved one by one.
template <std::size_t bytes>
struct Word;
template <>
struct Word<2> { using Type = unsigned short; };
template <>
struct Word<4> { using Type = unsigned; };
template <>
struct Word<8> { using Type = uint2; };
template <>
struct Word<16> { using Type = uint4; };
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
  __stwb(reinterpret_cast<Moved*>(to), word);   // an assignment may be taken apart again
#else
  std::memcpy(static_cast<void*>(to), &pack, sizeof pack);
#endif
}

// ---- RMSNorm --------------------------------------------------------------------------------------------------------

/// y = x · rstd · w, rstd = 1/sqrt(mean(x²) + eps). With `delta` the norm is of x + delta, rounded to Value and kept in `sum`.
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

/// What a row adds to the gradient by the norm's weight.
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
  float* parts;   ///< [parts, width]
  std::int64_t rows, step, width;
  PE_BOTH void operator()(std::int64_t part, std::int64_t column) const {
    const std::int64_t first = part * step, end = first + step < rows ? first + step : rows;
    float sum = 0;
    for (std::int64_t row = first; row < end; ++row) sum += term(row, column);
    parts[part * width + column] = sum;
  }
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

/// delta = Σ dout·out − dlse, for rows (sequence, head, query) of attention; `dlse` may be null.
template <typename Value>
struct RowProducts {
  PeCudaAttention of;
  const Value *dout, *out;
  const float* dlse;
  float* delta;

  PE_BOTH std::int64_t at(const PeCudaStrides& strides, std::int64_t row) const {
    const std::int64_t head = row / of.queries;
    return head / of.heads * strides.by_sequence + head % of.heads * strides.by_head + row % of.queries * strides.by_row;
  }
  PE_BOTH float partial(std::int64_t row, int lane) const {
    const Value *a = dout + at(of.dout, row), *b = out + at(of.out, row);
    float sum = 0;
    for (std::int64_t i = lane; i < of.width; i += kLanes) sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
    return sum;
  }
  PE_BOTH void finish(std::int64_t row, int lane, float sum) const {
    if (lane == 0) delta[row] = dlse == nullptr ? sum : sum - dlse[row];
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

/// One weight's update (Loshchilov and Hutter 2019; with `coupled` Kingma and Ba 2015), its gradient divided by
/// `divisor` first, and its low-precision copy where there is one.
template <typename Half>
struct AdamStep {
  PeCudaAdam with;
  PE_BOTH void operator()(std::int64_t, std::int64_t i) const {
    float value = with.values[i], g = with.gradients[i] / with.divisor;
    if (with.coupled) g += with.decay * value;
    else value -= with.lr * with.decay * value;
    const float first = with.first[i] + (1.0F - with.beta1) * (g - with.first[i]);
    const float second = with.beta2 * with.second[i] + (1.0F - with.beta2) * g * g;
    value -= with.lr / with.correction1 * first / (sqrtf(second) / sqrtf(with.correction2) + with.eps);
    with.first[i] = first;
    with.second[i] = second;
    with.values[i] = value;
    if (with.shadow != nullptr) static_cast<Half*>(with.shadow)[i] = static_cast<Half>(value);
  }
};

}  // namespace pe::cuda
