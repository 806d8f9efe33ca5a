/// @file
/// Cross-entropy, and the embedding's gradient. Both read whole vocabularies. See rows.h for how bodies run.
///
/// A line body has `begin(row, thread, own)`, whose results are merged over the threads of a block in pairs, and
/// `finish(row, thread, own, all)`.
#pragma once

#include "cuda/logarithms.h"
#include "cuda/rows.h"

namespace pe::cuda {

/// 2^x, 0 where that would be denormal.
PE_BOTH float power_of_2(float x) {
#if defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return exp2f(x);
#endif
}

/// The logarithm of a sum of exponentials, as its largest term and the rest; in base 2, so that a term costs a
/// multiplication with addition and an instruction.
struct LogSum {
  float top;    ///< log2 of the largest term, after rounding
  float total;  ///< sum of the terms over 2^top
};

/// e^x over 2^top.
PE_BOTH float term(float x, float top) { return power_of_2(fmaf(x, kLog2E, -top)); }

PE_BOTH LogSum merge(LogSum a, LogSum b) {
  const float top = fmaxf(a.top, b.top);
  if (top == -INFINITY) return {top, a.total + b.total};
  return {top, a.total * power_of_2(a.top - top) + b.total * power_of_2(b.top - top)};
}

/// A row of logits is read once. Its first packs stay with the threads until the gradient takes their place. Only the
/// rest of a large vocabulary is read again. With `softcap` logits are cap · tanh(logit / cap). The `z_loss` adds
/// z · lse² to the function that the gradient is of, not to the loss. The `scale` is a factor of the gradient.
template <typename Value, int n, int kHeld, bool kCapped, int threads = 512>
struct CrossEntropyLine {
  static constexpr int kThreads = threads;
  /// Blocks that a multiprocessor's registers are to hold.
  static constexpr int kAtOnce = kHeld > 8 || kThreads > 512 ? 1 : 2;
  Value* logits;
  const std::int64_t* targets;
  float* loss;
  std::int64_t vocabulary;
  bool gradient;
  float softcap, z_loss, scale;

  struct Own {
    Pack<Value, n> held[kHeld];
  };

  PE_BOTH float shaped(Value logit) const {
    const float x = static_cast<float>(logit);
    return kCapped ? softcap - 2 * softcap / (1 + power_of_2(x * (2 * kLog2E / softcap))) : x;  // the cap times tanh
  }
  PE_BOTH void take(const Pack<Value, n>& pack, LogSum& mine) const {
    float most = -INFINITY, x[n];
    PE_UNROLL
    for (int j = 0; j < n; ++j) {
      x[j] = shaped(pack.at[j]);
      most = fmaxf(most, x[j]);  // leaves NaN out, which reaches the sum
    }
    const float top = fmaxf(mine.top, most * kLog2E), base = top == -INFINITY ? 0 : top;
    float total = mine.total * power_of_2(mine.top - base);
    PE_UNROLL
    for (int j = 0; j < n; ++j) total += term(x[j], base);
    mine = {top, total};
  }

  PE_BOTH LogSum begin(std::int64_t row, int thread, Own& own) const {
    LogSum mine{-INFINITY, 0};
    if (targets[row] < 0) return mine;
    const Value* values = logits + row * vocabulary;
    const auto packs = static_cast<std::uint32_t>(vocabulary / n);
    PE_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      const std::uint32_t pack = thread + i * kThreads;
      if (pack < packs) own.held[i] = load<n>(values + pack * n);
    }
    PE_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      if (static_cast<std::uint32_t>(thread + i * kThreads) < packs) take(own.held[i], mine);
    }
    for (std::uint32_t pack = thread + kHeld * kThreads; pack < packs; pack += kThreads)
      take(load<n>(values + pack * n), mine);
    return mine;
  }

  PE_BOTH void finish(std::int64_t row, int thread, const Own& own, LogSum all) const {
    const std::int64_t target = targets[row];
    Value* values = logits + row * vocabulary;
    const auto packs = static_cast<std::uint32_t>(vocabulary / n);
    if (target < 0) {
      if (thread == 0) loss[row] = 0;
      for (std::uint32_t pack = thread; gradient && pack < packs; pack += kThreads)
        store<n>(values + pack * n, Pack<Value, n>{});
      return;
    }
    const float lse = (log2f(all.total) + all.top) * kLn2, factor = scale * (1.0F + 2.0F * z_loss * lse) / all.total;
    const auto slope = [&](float x, float one) {  // of the loss by the logit before the cap; `one` for the target
      const float d = term(x, all.top) * factor - one;
      return static_cast<Value>(kCapped ? d * (1.0F - x / softcap * (x / softcap)) : d);
    };
    // The target is its own thread's alone, which has to read it before it writes, and writes it last.
    const bool has_target = static_cast<std::uint32_t>(target) / n % kThreads == static_cast<std::uint32_t>(thread);
    float of_target = 0;
    if (has_target) {
      of_target = shaped(values[target]);
      loss[row] = lse - of_target;
    }
    if (!gradient) return;
    const auto give = [&](std::uint32_t pack, const Pack<Value, n>& in) {
      Pack<Value, n> out;
      PE_UNROLL
      for (int j = 0; j < n; ++j) out.at[j] = slope(shaped(in.at[j]), 0);
      store<n>(values + pack * n, out);
    };
    PE_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      if (static_cast<std::uint32_t>(thread + i * kThreads) < packs) give(thread + i * kThreads, own.held[i]);
    }
    for (std::uint32_t pack = thread + kHeld * kThreads; pack < packs; pack += kThreads)
      give(pack, load<n>(values + pack * n));
    if (has_target) values[target] = slope(of_target, scale);
  }
};

// ---- The embedding's gradient
// ------------------------------------------------------------------------------------------

/// Places of the sorted order that a cell walks through. Many cells share a token that has thousands of places.
inline constexpr std::int64_t kEmbeddingPiece = pe_cuda_embedding_piece;

/// gradient[id] += scale · the rows of every run of equal ids within one piece. Of a run that continues before or after
/// the piece, the piece's own sum goes to `edges` [pieces, 2, width]: the run at its start, then the run at its end.
template <typename Value, int n>
struct EmbeddingPieces {
  const std::int64_t *sorted, *order;
  const Value* rows;
  float *gradient, *edges;
  std::int64_t count, width;
  float scale;

  PE_BOTH void operator()(std::int64_t piece, std::int64_t column) const {
    const std::int64_t first = piece * kEmbeddingPiece,
                       end = first + kEmbeddingPiece < count ? first + kEmbeddingPiece : count;
    for (std::int64_t i = first; i < end;) {
      const std::int64_t id = sorted[i], begin = i;
      float sum[n] = {};
      for (; i < end && sorted[i] == id; ++i) {
        const Pack<Value, n> row = load<n>(rows + order[i] * width + column * n);
        PE_UNROLL
        for (int j = 0; j < n; ++j) sum[j] += static_cast<float>(row.at[j]);
      }
      const bool before = begin == first && first > 0 && sorted[first - 1] == id,
                 behind = i == end && end < count && sorted[end] == id;
      float* to = before ? edges + 2 * piece * width : behind ? edges + (2 * piece + 1) * width : gradient + id * width;
      if (!before && !behind && id < 0) continue;
      PE_UNROLL
      for (int j = 0; j < n; ++j) {
        if (before || behind)
          to[column * n + j] = sum[j];
        else
          to[column * n + j] += scale * sum[j];
      }
    }
  }
};

/// Puts together the runs that begin in a piece and end in a later one, piece by piece in their order.
struct EmbeddingRuns {
  const std::int64_t* sorted;
  float* gradient;
  const float* edges;
  std::int64_t count, width;
  float scale;

  PE_BOTH void operator()(std::int64_t piece, std::int64_t column) const {
    const std::int64_t first = piece * kEmbeddingPiece, end = first + kEmbeddingPiece;
    if (end >= count) return;
    const std::int64_t id = sorted[end - 1];
    const bool begun_before = first > 0 && sorted[first] == id && sorted[first - 1] == id;
    if (id < 0 || sorted[end] != id || begun_before) return;
    float sum = edges[(2 * piece + 1) * width + column];
    for (std::int64_t next = piece + 1; next * kEmbeddingPiece < count && sorted[next * kEmbeddingPiece] == id;
         ++next) {
      sum += edges[2 * next * width + column];
    }
    gradient[id * width + column] += scale * sum;
  }
};

}  // namespace pe::cuda
