/// @file
/// Parts that all bodies of attention (cuda/attention.h) share: copies to shared memory, products of tiles, numbers by
/// distance, and masks.
///
/// A body is a template over W, the warp. A value that differs between lanes is a W::Lanes<T>: T itself on a GPU, 32 of
/// them on the CPU. So control flow depends on plain values alone, and choices between lanes' values are selects.
/// Shared memory is addressed in bytes.
///
/// Scores are products of 16 × 8 × 16 by mma.sync.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating
/// point type"). Let group = lane / 4 and pair = lane % 4. Of a result, a lane holds row `group` at 0 and 1, and row
/// group + 8 at 2 and 3. Its columns are 2 · pair and 2 · pair + 1. Two such results have the layout of the left
/// operand of a product.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/logarithms.h"
#include "cuda/plugin.h"

#if defined(__CUDACC__)
#define PE_BODY __device__ __forceinline__
#define PE_SIZE __host__ __device__ constexpr
#define PE_UNROLL _Pragma("unroll")
#define PE_LOOP _Pragma("unroll 1")
#else
#define PE_BODY inline
#define PE_SIZE constexpr
#define PE_UNROLL
#define PE_LOOP
#endif

namespace pe::cuda {

inline constexpr int kWarps = 4, kWarpLanes = 32, kThreads = kWarps * kWarpLanes;
inline constexpr int kTile = 64;  ///< rows and columns of scores that a block has at a time

/// Bytes from a row to the next in shared memory: the 16 more put eight rows' chunks of 16 into 32 different banks.
PE_SIZE int pitch(int width) { return 2 * width + 16; }
PE_SIZE int tiles(std::int64_t rows, int tile = kTile) { return static_cast<int>((rows + tile - 1) / tile); }

/// Bytes of shared memory of a body's block.
template <typename Body>
int shared_of(const Body& body) {
  if constexpr (requires { body.shared(); })
    return body.shared();
  else
    return Body::kShared;
}

template <typename T, typename W>
using Per = typename W::template Lanes<T>;

/// A 16 × 8 result for each eight of `columns`, for `strips` strips of 16 rows.
template <typename W, int strips, int columns>
using Sums = Per<float, W>[strips][columns / 8][4];

template <typename W, int strips, int columns>
PE_BODY void clear(Sums<W, strips, columns>& sums) {
  PE_UNROLL
  for (int strip = 0; strip < strips; ++strip) {
    PE_UNROLL
    for (int n = 0; n < columns / 8; ++n) {
      PE_UNROLL
      for (int i = 0; i < 4; ++i) sums[strip][n][i] = 0.0F;
    }
  }
}

// ---- To shared memory -----------------------------------------------------------------------------------------------

/// Begins to copy a matrix's rows; those from `present` on become zeros.
template <int width, int rows, typename W>
PE_BODY void fetch_rows(W& w, int to, const void* from, std::int64_t stride, int present) {
  constexpr int kChunks = width / 8, kAtOnce = kThreads / kChunks;
  const Per<int, W> row = w.thread() / kChunks, chunk = w.thread() % kChunks;
  const Per<int, W> shared = row * pitch(width) + chunk * 16 + to;
  const Per<std::int64_t, W> offset = row * (2 * stride) + chunk * 16;
  PE_UNROLL
  for (int first = 0; first < rows; first += kAtOnce) {
    w.template copy<16>(shared + first * pitch(width), static_cast<const char*>(from) + first * 2 * stride, offset,
                        row + first < present);
  }
}

/// Begins to copy from[first …]; zeros where that is below 0 or at or past `size`.
template <int count, typename W>
PE_BODY void fetch_floats(W& w, int to, const float* from, int first, int size) {
  static_assert(count % kThreads == 0);
  PE_UNROLL
  for (int i = 0; i < count; i += kThreads) {
    const Per<int, W> at = w.thread() + (first + i);
    w.template copy<4>(w.thread() * 4 + (to + 4 * i), from, Per<std::int64_t, W>(at) * 4, (at >= 0) & (at < size));
  }
}

// ---- Products -------------------------------------------------------------------------------------------------------

/// A left operand of rows in shared memory. Rows that are not held in registers are read again for each product.
template <typename W, int width, int strips, bool held>
struct LeftRows {
  Per<std::uint32_t, W> kept[held ? strips : 1][held ? width / 16 : 1][4];
  Per<int, W> from;

  PE_BODY void begin(W& w, int first) {
    from = w.lane() % 16 * pitch(width) + w.lane() / 16 * 16 + first;
    if constexpr (held) {
      PE_UNROLL
      for (int strip = 0; strip < strips; ++strip) {
        PE_UNROLL
        for (int step = 0; step < width / 16; ++step) read(w, strip, step, kept[strip][step]);
      }
    }
  }
  PE_BODY void read(W& w, int strip, int step, Per<std::uint32_t, W> (&to)[4]) const {
    w.matrices(to, from + (strip * 16 * pitch(width) + step * 32));
  }
  PE_BODY void get(W& w, int strip, int step, Per<std::uint32_t, W> (&to)[4]) const {
    if constexpr (held) {
      PE_UNROLL
      for (int i = 0; i < 4; ++i) to[i] = kept[strip][step][i];
    } else {
      read(w, strip, step, to);
    }
  }
};

/// sums += left · rightᵀ, the rows of `right` in shared memory.
template <int width, int strips, int columns, typename W, typename Left>
PE_BODY void multiply_rows(W& w, Sums<W, strips, columns>& sums, const Left& left, int right) {
  const Per<int, W> from = (w.lane() % 8 + w.lane() / 16 * 8) * pitch(width) + w.lane() / 8 % 2 * 16 + right;
  PE_UNROLL
  for (int step = 0; step < width / 16; ++step) {
    Per<std::uint32_t, W> a[strips][4];
    PE_UNROLL
    for (int strip = 0; strip < strips; ++strip) left.get(w, strip, step, a[strip]);
    PE_UNROLL
    for (int n = 0; n < columns / 8; n += 2) {
      Per<std::uint32_t, W> b[4];
      w.matrices(b, from + (n * 8 * pitch(width) + step * 32));
      PE_UNROLL
      for (int strip = 0; strip < strips; ++strip) {
        w.multiply_add(sums[strip][n], a[strip], b[0], b[1]);
        w.multiply_add(sums[strip][n + 1], a[strip], b[2], b[3]);
      }
    }
  }
}

/// sums += left · right, `left` rounded to bf16, the rows of `right` in shared memory.
template <int width, int strips, int columns, typename W>
PE_BODY void multiply_columns(W& w, Sums<W, strips, width>& sums, const Sums<W, strips, columns>& left, int right) {
  const Per<int, W> from = w.lane() % 16 * pitch(width) + w.lane() / 16 * 16 + right;
  PE_UNROLL
  for (int step = 0; step < columns / 16; ++step) {
    Per<std::uint32_t, W> a[strips][4];
    PE_UNROLL
    for (int strip = 0; strip < strips; ++strip) {
      PE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const auto& half = left[strip][2 * step + i / 2];
        a[strip][i] = W::pack(half[i % 2 * 2], half[i % 2 * 2 + 1]);
      }
    }
    PE_UNROLL
    for (int n = 0; n < width / 8; n += 2) {
      Per<std::uint32_t, W> b[4];
      w.matrices_transposed(b, from + (step * 16 * pitch(width) + n * 16));
      PE_UNROLL
      for (int strip = 0; strip < strips; ++strip) {
        w.multiply_add(sums[strip][n], a[strip], b[0], b[1]);
        w.multiply_add(sums[strip][n + 1], a[strip], b[2], b[3]);
      }
    }
  }
}

/// Rounds rows times `factor` (one for each row of the lane) to bf16 and writes those before `present`.
template <int width, int strips, typename W>
PE_BODY void write_rows(W& w, const Sums<W, strips, width>& sums, const Per<float, W> (&factor)[strips][2], void* to,
                        std::int64_t stride, int first, int present) {
  PE_UNROLL
  for (int strip = 0; strip < strips; ++strip) {
    PE_UNROLL
    for (int r = 0; r < 2; ++r) {
      const Per<int, W> row = w.lane() / 4 + (first + 16 * strip + 8 * r);
      const Per<std::int64_t, W> at = row * (stride / 2) + w.lane() % 4;
      PE_UNROLL
      for (int n = 0; n < width / 8; ++n) {
        W::write(static_cast<std::uint32_t*>(to), at + 4 * n,
                 W::pack(sums[strip][n][2 * r] * factor[strip][r], sums[strip][n][2 * r + 1] * factor[strip][r]),
                 row < present);
      }
    }
  }
}

// ---- Logits ---------------------------------------------------------------------------------------------------------

/// Calls with(strip, n, i) for each score of a lane.
template <int strips, int columns, typename With>
PE_BODY void each_score(const With& with) {
  PE_UNROLL
  for (int strip = 0; strip < strips; ++strip) {
    PE_UNROLL
    for (int n = 0; n < columns / 8; ++n) {
      PE_UNROLL
      for (int i = 0; i < 4; ++i) with(strip, n, i);
    }
  }
}

/// The place of a part of a tile of scores.
struct TilePlace {
  int own;     ///< the warp's first row in the tile
  int column;  ///< the part's first column in the tile
  int first;   ///< the tile's first column in the matrix
  int mod;     ///< a Mod's data for the tile in shared memory
};

/// A number for each score of a tile, by distance: few of them serve all of a lane's scores.
template <typename W, int strips, int columns>
struct ByDiagonal {
  static constexpr int kNs = columns / 8;
  Per<float, W> held[2 * strips + kNs - 1][2];

  /// Reads numbers times `factor`. Their window begins kTile − 1 before the distance of the tile's first score.
  /// @tparam sign  1 where rows are queries: the distance grows with the row; −1 where they are keys
  /// @param from  the window in shared memory
  template <int sign>
  PE_BODY void load(W& w, const TilePlace& at, int from, float factor) {
    const Per<int, W> first =
        ((w.lane() / 4 - w.lane() % 4 * 2 + (at.own - at.column)) * sign + (kTile - 1)) * 4 + from;
    PE_UNROLL
    for (int diagonal = 0; diagonal < 2 * strips + kNs - 1; ++diagonal) {
      PE_UNROLL
      for (int e = 0; e < 2; ++e)
        held[diagonal][e] = w.load(first + 4 * sign * (8 * (diagonal - kNs + 1) - e)) * factor;
    }
  }
  PE_BODY const Per<float, W>& at(int strip, int n, int i) const {
    return held[2 * strip + i / 2 - n + kNs - 1][i % 2];
  }
};

/// Sums of the lanes that hold a row, and of all lanes.
template <typename W>
PE_BODY Per<float, W> sum_of_row(W& w, Per<float, W> sum) {
  sum = sum + w.shuffle_xor(sum, 1);
  return sum + w.shuffle_xor(sum, 2);
}
template <typename W>
PE_BODY Per<float, W> sum_of_lanes(W& w, Per<float, W> sum) {
  PE_UNROLL
  for (int mask = 1; mask < kWarpLanes; mask *= 2) sum = sum + w.shuffle_xor(sum, mask);
  return sum;
}

/// The sum of a value over the lanes that differ in bits `first` to end / 2 alone and come later, or earlier. The value
/// becomes the sum over all of them.
template <int first, int end, bool later, typename W>
PE_BODY Per<float, W> sum_of_others(W& w, Per<float, W>& value) {
  Per<float, W> others = 0.0F;
  PE_UNROLL
  for (int mask = first; mask < end; mask *= 2) {
    const Per<float, W> next = w.shuffle_xor(value, mask);
    others = others + W::select(w.lane() / mask % 2 == (later ? 0 : 1), next, Per<float, W>(0.0F));
    value = value + next;
  }
  return others;
}

/// Of a tile of rows that are queries.
template <typename W, int strips>
struct QueryMask {
  Per<int, W> start[strips][2], position[strips][2];  ///< key rows

  /// @param first         the warp's first query row
  /// @param hide_missing  rows past the last query see nothing
  PE_BODY void begin(W& w, const PeCudaAttention& of, int b, int first, bool hide_missing) {
    PE_UNROLL
    for (int strip = 0; strip < strips; ++strip) {
      PE_UNROLL
      for (int r = 0; r < 2; ++r) {
        const Per<int, W> row = w.lane() / 4 + (first + 16 * strip + 8 * r);
        const auto there = row < static_cast<int>(of.queries);
        const Per<int, W> stands = row + static_cast<int>(of.keys - of.queries);
        const Per<int, W> nearest = stands - of.stick.hidden;
        position[strip][r] = hide_missing ? W::select(there, nearest, Per<int, W>(-1)) : nearest;
        start[strip][r] = 0;
        if (of.starts != nullptr) {
          start[strip][r] =
              Per<int, W>(W::read(of.starts + b * of.starts_by_sequence, Per<std::int64_t, W>(stands), there));
        }
      }
    }
  }
  template <int columns>
  PE_BODY void hide(W& w, Sums<W, strips, columns>& logits, int first_key) const {
    PE_UNROLL
    for (int strip = 0; strip < strips; ++strip) {
      PE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const Per<int, W> shift = w.lane() % 4 * 2 + (first_key + i % 2);
        const Per<int, W> low = start[strip][i / 2] - shift, high = position[strip][i / 2] - shift;
        PE_UNROLL
        for (int n = 0; n < columns / 8; ++n) {
          logits[strip][n][i] =
              W::select((low <= 8 * n) & (high >= 8 * n), logits[strip][n][i], Per<float, W>(-INFINITY));
        }
      }
    }
  }
};

/// First key row that query row t may see.
PE_BODY int first_seen(const PeCudaAttention& of, int b, int t) {
  return of.starts == nullptr ? 0 : static_cast<int>(of.starts[b * of.starts_by_sequence + of.keys - of.queries + t]);
}

PE_BODY const void* head_at(const void* from, const PeCudaStrides& strides, int b, int h) {
  return static_cast<const char*>(from) + 2 * (b * strides.by_sequence + h * strides.by_head);
}
PE_BODY void* head_at(void* from, const PeCudaStrides& strides, int b, int h) {
  return static_cast<char*>(from) + 2 * (b * strides.by_sequence + h * strides.by_head);
}
PE_BODY const void* row_at(const void* head, const PeCudaStrides& strides, int row) {
  return static_cast<const char*>(head) + 2 * row * strides.by_row;
}

PE_BODY int smaller(std::int64_t a, std::int64_t b) { return static_cast<int>(a < b ? a : b); }
PE_BODY int larger(std::int64_t a, std::int64_t b) { return static_cast<int>(a > b ? a : b); }

}  // namespace pe::cuda
