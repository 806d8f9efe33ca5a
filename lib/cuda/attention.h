/// @file
/// Attention in tiles after FlashAttention-2 (Dao 2023, arXiv:2307.08691): scores never leave the registers, and the
/// backward pass computes them again from their logsumexp. A body says what a warp of a block does; attention.cu runs
/// bodies on a GPU, the tests run the same ones on the CPU.
///
/// A body is a template over W, the warp. A value that differs between lanes is a W::Lanes<T>: T itself on a GPU, 32 of
/// them on the CPU. So control flow depends on plain values alone, and choices between lanes' values are selects.
/// Shared memory is addressed in bytes.
///
/// Scores are products of 16 × 8 × 16 by mma.sync.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating
/// point type"): of a 16 × 8 result, a lane holds row `group` at 0 and 1, row group + 8 at 2 and 3, columns 2 · pair
/// and 2 · pair + 1, where group = lane / 4 and pair = lane % 4. Two such results lie as the left operand of a product.
///
/// No sum depends on who comes first: two runs give the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/logarithms.h"
#include "cuda/plugin.h"

#if defined(__CUDACC__)
#define PE_BODY __device__ __forceinline__
#define PE_SIZE __host__ __device__ constexpr
#define PE_UNROLL _Pragma("unroll")
#else
#define PE_BODY inline
#define PE_SIZE constexpr
#define PE_UNROLL
#endif

namespace pe::cuda {

inline constexpr int kWarps = 4, kWarpLanes = 32, kThreads = kWarps * kWarpLanes;
inline constexpr int kTile = 64;  ///< rows and columns of scores that a block has at a time

/// Bytes from a row to the next in shared memory: the 16 more put eight rows' chunks of 16 into 32 different banks.
PE_SIZE int pitch(int width) { return 2 * width + 16; }
PE_SIZE int tiles(std::int64_t rows, int tile = kTile) { return static_cast<int>((rows + tile - 1) / tile); }

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

/// A left operand of rows in shared memory. What is not held in registers is read anew each time.
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

/// Scores to logits times log2(e). A tile's biases hang on i − j alone, so that few of them serve all of a lane's
/// scores.
/// @param window  the bias of the lane's first score in shared memory
/// @param sign    1 where rows are queries: the distance grows with the row; −1 where they are keys
template <int strips, int columns, int sign, typename W>
PE_BODY void add_bias(W& w, Sums<W, strips, columns>& scores, const Per<int, W>& window, float scale) {
  constexpr int kNs = columns / 8;
  Per<float, W> bias[2 * strips + kNs - 1][2];
  PE_UNROLL
  for (int diagonal = 0; diagonal < 2 * strips + kNs - 1; ++diagonal) {
    PE_UNROLL
    for (int e = 0; e < 2; ++e) bias[diagonal][e] = w.load(window + 4 * sign * (8 * (diagonal - kNs + 1) - e)) * kLog2E;
  }
  PE_UNROLL
  for (int strip = 0; strip < strips; ++strip) {
    PE_UNROLL
    for (int n = 0; n < kNs; ++n) {
      PE_UNROLL
      for (int i = 0; i < 4; ++i)
        scores[strip][n][i] = scores[strip][n][i] * scale + bias[2 * strip + i / 2 - n + kNs - 1][i % 2];
    }
  }
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
        position[strip][r] = hide_missing ? W::select(there, stands, Per<int, W>(-1)) : stands;
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

// ---- Mods -----------------------------------------------------------------------------------------------------------
//
// A Mod defines the term that is added to the products of queries and keys. OfQueries has the state of a lane if rows
// are queries, OfKeys if rows are keys. `fetch` copies the data of a tile into a stage of shared memory. `add` makes
// logits times log2(e) from scores. `take` sums gradients in registers from the slopes of the logits, and `write`
// stores them. Each sum has one owner and one order.

/// Nothing is added.
struct Plain {
  static constexpr bool kAdds = false, kSums = false;
  PE_SIZE static int floats(int) { return 0; }

  template <typename W, int strips>
  struct OfQueries {
    PE_BODY void begin(W&, const PeCudaAttention&, int, int, int) {}
    PE_BODY static void fetch(W&, const PeCudaAttention&, int, int, int, int, int) {}
  };
  template <typename W>
  struct OfKeys {
    PE_BODY static void fetch(W&, const PeCudaAttention&, int, int, int, int, int) {}
  };
};

/// A bias by distance, from a table. The gradient by the table is AttentionQueryGradients' own.
struct ByDistance {
  static constexpr bool kAdds = true, kSums = false;
  PE_SIZE static int floats(int strips) { return strips * kThreads; }

  template <typename W, int strips>
  struct OfQueries {
    PE_BODY void begin(W&, const PeCudaAttention&, int, int, int) {}
    /// @param place key row of the tile's first query
    PE_BODY static void fetch(W& w, const PeCudaAttention& of, int, int h, int place, int key, int to) {
      fetch_floats<floats(strips)>(w, to, of.table + h * of.keys, place - key - (kTile - 1), static_cast<int>(of.keys));
    }
    template <int columns>
    PE_BODY void add(W& w, Sums<W, strips, columns>& scores, int own, int column, int from, float scale) const {
      add_bias<strips, columns, 1>(w, scores, (w.lane() / 4 - w.lane() % 4 * 2 + (own - column + kTile - 1)) * 4 + from,
                                   scale);
    }
  };
  template <typename W>
  struct OfKeys {
    PE_BODY static void fetch(W& w, const PeCudaAttention& of, int, int h, int row, int key, int to) {
      const int shift = static_cast<int>(of.keys - of.queries);
      fetch_floats<kThreads>(w, to, of.table + h * of.keys, row + shift - key - (kTile - 1), static_cast<int>(of.keys));
    }
    PE_BODY void begin(W&, const PeCudaAttention&, int, int, int) {}
    template <int columns>
    PE_BODY void add(W& w, Sums<W, 1, columns>& scores, int own, int column, int from, float scale) const {
      add_bias<1, columns, -1>(w, scores, (w.lane() % 4 * 2 - w.lane() / 4 + (column - own + kTile - 1)) * 4 + from,
                               scale);
    }
  };
};

/// (gate of the query + gate of the key) · (place of the key − place of the query), with the gradients by all four.
struct GatedDistance {
  static constexpr bool kAdds = true, kSums = true;
  PE_SIZE static int floats(int) { return 2 * kThreads; }  ///< places, then gates, of the tile's columns

  /// Of a lane's rows, `strips` times two. `sign` is 1 where rows are queries, −1 where they are keys.
  template <typename W, int strips, int sign>
  struct OfRows {
    Per<float, W> place[strips][2], gate[strips][2], by_place[strips][2], by_gate[strips][2];
    bool gated;  ///< columns have gates

    PE_BODY void begin_rows(W& w, const float* places, const float* gates, int first, int count,
                            bool columns_have_gates) {
      gated = columns_have_gates;
      PE_UNROLL
      for (int strip = 0; strip < strips; ++strip) {
        PE_UNROLL
        for (int r = 0; r < 2; ++r) {
          const Per<int, W> row = w.lane() / 4 + (first + 16 * strip + 8 * r);
          const auto there = row < count;
          place[strip][r] = W::read(places, Per<std::int64_t, W>(row), there);
          gate[strip][r] = 0.0F;
          if (gates != nullptr) gate[strip][r] = W::read(gates, Per<std::int64_t, W>(row), there);
          by_place[strip][r] = 0.0F;
          by_gate[strip][r] = 0.0F;
        }
      }
    }
    /// Calls with(strip, i, n, way, gate) for each score: the place of the key less that of the query, and the sum of
    /// gates.
    template <int columns, typename With>
    PE_BODY void each(W& w, int column, int from, const With& with) const {
      const Per<int, W> at = w.lane() % 4 * 8 + (from + 4 * column);
      PE_UNROLL
      for (int n = 0; n < columns / 8; ++n) {
        Per<float, W> places[2], gates[2];
        w.load_two(places, at + 32 * n);
        gates[0] = gates[1] = 0.0F;
        if (gated) w.load_two(gates, at + (32 * n + 4 * kThreads));
        PE_UNROLL
        for (int strip = 0; strip < strips; ++strip) {
          PE_UNROLL
          for (int i = 0; i < 4; ++i) {
            const Per<float, W> way =
                sign > 0 ? places[i % 2] - place[strip][i / 2] : place[strip][i / 2] - places[i % 2];
            with(strip, i, n, way, gate[strip][i / 2] + gates[i % 2]);
          }
        }
      }
    }
    template <int columns>
    PE_BODY void add(W& w, Sums<W, strips, columns>& scores, int, int column, int from, float scale) const {
      each<columns>(w, column, from, [&](int strip, int i, int n, const Per<float, W>& way, const Per<float, W>& both) {
        scores[strip][n][i] = scores[strip][n][i] * scale + way * both * kLog2E;
      });
    }
    template <int columns>
    PE_BODY void take(W& w, const Sums<W, strips, columns>& slopes, int column, int from) {
      each<columns>(w, column, from, [&](int strip, int i, int n, const Per<float, W>& way, const Per<float, W>& both) {
        by_gate[strip][i / 2] = by_gate[strip][i / 2] + slopes[strip][n][i] * way;
        by_place[strip][i / 2] = by_place[strip][i / 2] + slopes[strip][n][i] * both * static_cast<float>(-sign);
      });
    }
    /// The lanes of a row put their sums together.
    PE_BODY void end(W& w, float* gates, float* places, int first, int count) {
      PE_UNROLL
      for (int strip = 0; strip < strips; ++strip) {
        PE_UNROLL
        for (int r = 0; r < 2; ++r) {
          const Per<int, W> row = w.lane() / 4 + (first + 16 * strip + 8 * r);
          const auto writes = (row < count) & (w.lane() % 4 == 0);
          W::write(gates, Per<std::int64_t, W>(row), together(w, by_gate[strip][r]), writes);
          W::write(places, Per<std::int64_t, W>(row), together(w, by_place[strip][r]), writes);
        }
      }
    }
    PE_BODY static Per<float, W> together(W& w, Per<float, W> sum) {
      sum = sum + w.shuffle_xor(sum, 1);
      return sum + w.shuffle_xor(sum, 2);
    }
  };

  PE_BODY static std::int64_t head(const PeCudaAttention& of, int b, int h) { return b * of.heads + h; }

  template <typename W, int strips>
  struct OfQueries : OfRows<W, strips, 1> {
    PE_BODY void begin(W& w, const PeCudaAttention& of, int b, int h, int first) {
      const std::int64_t at = head(of, b, h);
      this->begin_rows(w, of.places + at * of.keys + (of.keys - of.queries), of.query_gates + at * of.queries, first,
                       static_cast<int>(of.queries), of.key_gates != nullptr);
    }
    PE_BODY static void fetch(W& w, const PeCudaAttention& of, int b, int h, int, int key, int to) {
      const std::int64_t at = head(of, b, h) * of.keys;
      fetch_floats<kThreads>(w, to, of.places + at, key, static_cast<int>(of.keys));
      if (of.key_gates != nullptr)
        fetch_floats<kThreads>(w, to + 4 * kThreads, of.key_gates + at, key, static_cast<int>(of.keys));
    }
    PE_BODY void write(W& w, const PeCudaAttention& of, const PeCudaGatedGradients& to, int b, int h, int first) {
      const std::int64_t at = head(of, b, h) * of.queries;
      this->end(w, to.query_gates + at, to.query_places + at, first, static_cast<int>(of.queries));
    }
  };
  template <typename W>
  struct OfKeys : OfRows<W, 1, -1> {
    PE_BODY void begin(W& w, const PeCudaAttention& of, int b, int h, int key) {
      const std::int64_t at = head(of, b, h) * of.keys;
      this->begin_rows(w, of.places + at, of.key_gates == nullptr ? nullptr : of.key_gates + at, key,
                       static_cast<int>(of.keys), true);
    }
    PE_BODY static void fetch(W& w, const PeCudaAttention& of, int b, int h, int row, int, int to) {
      const std::int64_t at = head(of, b, h);
      fetch_floats<kThreads>(w, to, of.places + at * of.keys + (of.keys - of.queries), row,
                             static_cast<int>(of.queries));
      fetch_floats<kThreads>(w, to + 4 * kThreads, of.query_gates + at * of.queries, row, static_cast<int>(of.queries));
    }
    PE_BODY void write(W& w, const PeCudaAttention& of, const PeCudaGatedGradients& to, int b, int h, int key) {
      const std::int64_t at = head(of, b, h) * of.keys;
      this->end(w, to.key_gates + at, to.key_places + at, key, static_cast<int>(of.keys));
    }
  };
};

// ---- Forward --------------------------------------------------------------------------------------------------------

/// A block for each tile of queries. `strips` strips of 16 queries a warp.
template <int width, int strips, typename Mod>
struct AttentionForward {
  static constexpr int kAtOnce = 2;  ///< blocks that a multiprocessor's registers are to hold
  static constexpr int kRows = kTile * strips;
  static constexpr int kKeys = kRows * pitch(width), kValues = kTile * pitch(width), kMod = 2 * kValues;
  static constexpr int kStage = kMod + 4 * Mod::floats(strips);
  static constexpr int kShared = kKeys + 2 * kStage;

  PeCudaAttention of;
  const void *q, *k, *v;
  void* out;
  float* lse;

  std::int64_t blocks() const { return of.batch * of.heads * tiles(of.queries, kRows); }

  template <typename W>
  PE_BODY void operator()(W& w, std::int64_t block) const {
    // Tiles of a head one after the other, so that its keys stay in cache; long ones first.
    const int count = tiles(of.queries, kRows), tile = count - 1 - static_cast<int>(block % count);
    const int pair = static_cast<int>(block / count), heads = static_cast<int>(of.heads), h = pair % heads,
              b = pair / heads;
    const int group = h / static_cast<int>(of.heads / of.groups), shift = static_cast<int>(of.keys - of.queries);
    const int first = tile * kRows, last = smaller(first + kRows, of.queries) - 1;
    const void *queries = head_at(q, of.q, b, h), *keys = head_at(k, of.k, b, group),
               *values = head_at(v, of.v, b, group);
    const int first_tile = first_seen(of, b, first) / kTile, last_tile = (last + shift) / kTile;
    const int last_start = first_seen(of, b, last);

    const auto fetch = [&](int at) {
      const int stage = kKeys + at % 2 * kStage, key = at * kTile, present = static_cast<int>(of.keys) - key;
      fetch_rows<width, kTile>(w, stage, row_at(keys, of.k, key), of.k.by_row, present);
      fetch_rows<width, kTile>(w, stage + kValues, row_at(values, of.v, key), of.v.by_row, present);
      Mod::template OfQueries<W, strips>::fetch(w, of, b, h, first + shift, key, stage + kMod);
      w.commit();
    };
    fetch_rows<width, kRows>(w, 0, row_at(queries, of.q, first), of.q.by_row, static_cast<int>(of.queries) - first);
    fetch(first_tile);

    const int own = w.warp() * 16 * strips;  // first row in the tile
    QueryMask<W, strips> mask;
    mask.begin(w, of, b, first + own, false);
    typename Mod::template OfQueries<W, strips> mod;
    mod.begin(w, of, b, h, first + own);
    const float scale = of.scale * kLog2E;
    Sums<W, strips, width> sums;
    clear<W, strips, width>(sums);
    Per<float, W> top[strips][2], total[strips][2];  // totals of this lane's columns
    PE_UNROLL
    for (int strip = 0; strip < strips; ++strip) {
      PE_UNROLL
      for (int r = 0; r < 2; ++r) {
        top[strip][r] = -INFINITY;
        total[strip][r] = 0.0F;
      }
    }
    w.template wait<0>();
    w.sync();
    LeftRows<W, width, strips, true> left;
    left.begin(w, own * pitch(width));

    for (int at = first_tile; at <= last_tile; ++at) {
      if (at > first_tile) {
        w.template wait<0>();
        w.sync();
      }
      if (at < last_tile) fetch(at + 1);  // over the tile before this one, which all have left
      const int stage = kKeys + at % 2 * kStage, key = at * kTile;
      if (key > first + own + 16 * strips - 1 + shift) continue;

      Sums<W, strips, kTile> scores;
      clear<W, strips, kTile>(scores);
      multiply_rows<width, strips, kTile>(w, scores, left, stage);
      if constexpr (Mod::kAdds) mod.template add<kTile>(w, scores, own, 0, stage + kMod, scale);
      if (key + kTile - 1 > first + own + shift || key < last_start) mask.template hide<kTile>(w, scores, key);
      const float factor = Mod::kAdds ? 1.0F : scale;
      PE_UNROLL
      for (int strip = 0; strip < strips; ++strip) {
        PE_UNROLL
        for (int r = 0; r < 2; ++r) {
          Per<float, W> high = -INFINITY;
          PE_UNROLL
          for (int n = 0; n < kTile / 8; ++n)
            high = W::larger(high, W::larger(scores[strip][n][2 * r], scores[strip][n][2 * r + 1]));
          high = W::larger(high, w.shuffle_xor(high, 1));
          high = W::larger(high, w.shuffle_xor(high, 2)) * factor;
          const Per<float, W> next = W::larger(top[strip][r], high);
          // A document's first row may find the tiles before it hidden.
          const Per<float, W> base = W::select(next == -INFINITY, Per<float, W>(0.0F), next);
          const Per<float, W> shrink = W::exp2(top[strip][r] - base);
          top[strip][r] = next;
          total[strip][r] = total[strip][r] * shrink;
          PE_UNROLL
          for (int n = 0; n < kTile / 8; ++n) {
            PE_UNROLL
            for (int i = 2 * r; i < 2 * r + 2; ++i) {
              scores[strip][n][i] = W::exp2(scores[strip][n][i] * factor - base);
              total[strip][r] = total[strip][r] + scores[strip][n][i];
            }
          }
          PE_UNROLL
          for (int n = 0; n < width / 8; ++n) {
            sums[strip][n][2 * r] = sums[strip][n][2 * r] * shrink;
            sums[strip][n][2 * r + 1] = sums[strip][n][2 * r + 1] * shrink;
          }
        }
      }
      multiply_columns<width, strips, kTile>(w, sums, scores, stage + kValues);
    }

    PE_UNROLL
    for (int strip = 0; strip < strips; ++strip) {
      PE_UNROLL
      for (int r = 0; r < 2; ++r) {
        Per<float, W> all = total[strip][r];
        all = all + w.shuffle_xor(all, 1);
        all = all + w.shuffle_xor(all, 2);
        const Per<int, W> row = w.lane() / 4 + (first + own + 16 * strip + 8 * r);
        W::write(lse + (static_cast<std::int64_t>(b) * heads + h) * of.queries, Per<std::int64_t, W>(row),
                 (top[strip][r] + W::log2(all)) * kLn2, (row < static_cast<int>(of.queries)) & (w.lane() % 4 == 0));
        total[strip][r] = 1.0F / all;
      }
    }
    write_rows<width, strips>(w, sums, total, head_at(out, of.out, b, h), of.out.by_row, first + own,
                              static_cast<int>(of.queries));
  }
};

// ---- Backward -------------------------------------------------------------------------------------------------------

/// Gradients by keys and values: a block for each tile of keys, which meets all queries of its group's heads in order.
/// Scores are transposed, 16 keys a warp, so that they are left operands as they come; `part` queries at a time.
template <int width, int part, typename Mod>
struct AttentionKeyGradients {
  static constexpr int kAtOnce = width < 64 ? 3 : 2;
  static constexpr int kValues = kTile * pitch(width), kStages = 2 * kValues;
  static constexpr int kLse = 2 * kValues, kDelta = kLse + 4 * kThreads, kMod = kDelta + 4 * kThreads;  ///< of a stage
  static constexpr int kStage = kMod + 4 * Mod::floats(1);
  static constexpr int kShared = kStages + 2 * kStage;

  PeCudaAttention of;
  const void *q, *k, *v, *dout;
  const float *lse, *delta;
  void *dk, *dv;
  PeCudaGatedGradients dgated;

  std::int64_t blocks() const { return of.batch * of.groups * tiles(of.keys); }

  template <typename W>
  PE_BODY void operator()(W& w, std::int64_t block) const {
    const int count = tiles(of.keys), key = static_cast<int>(block % count) * kTile,
              pair = static_cast<int>(block / count);
    const int groups = static_cast<int>(of.groups), group = pair % groups, b = pair / groups;
    const int sharing = static_cast<int>(of.heads / of.groups), shift = static_cast<int>(of.keys - of.queries);
    const int first_tile = larger(key - shift, 0) / kTile, end = tiles(of.queries);
    int seen = 1;  // tiles of queries
    while (first_tile + seen < end && first_seen(of, b, (first_tile + seen) * kTile) < key + kTile) ++seen;
    const int steps = seen * sharing;

    const auto fetch = [&](int step) {
      const int stage = kStages + step % 2 * kStage, h = group * sharing + step / seen,
                row = (first_tile + step % seen) * kTile;
      const int present = static_cast<int>(of.queries) - row;
      fetch_rows<width, kTile>(w, stage, row_at(head_at(q, of.q, b, h), of.q, row), of.q.by_row, present);
      fetch_rows<width, kTile>(w, stage + kValues, row_at(head_at(dout, of.dout, b, h), of.dout, row), of.dout.by_row,
                               present);
      const std::int64_t head = (b * of.heads + h) * of.queries;
      fetch_floats<kThreads>(w, stage + kLse, lse + head, row, static_cast<int>(of.queries));
      fetch_floats<kThreads>(w, stage + kDelta, delta + head, row, static_cast<int>(of.queries));
      Mod::template OfKeys<W>::fetch(w, of, b, h, row, key, stage + kMod);
      w.commit();
    };
    const int present_keys = static_cast<int>(of.keys) - key;
    fetch_rows<width, kTile>(w, 0, row_at(head_at(k, of.k, b, group), of.k, key), of.k.by_row, present_keys);
    fetch_rows<width, kTile>(w, kValues, row_at(head_at(v, of.v, b, group), of.v, key), of.v.by_row, present_keys);
    fetch(0);

    const int own = w.warp() * 16;
    const float scale = of.scale * kLog2E;
    Sums<W, 1, width> by_key, by_value;
    clear<W, 1, width>(by_key);
    clear<W, 1, width>(by_value);
    w.template wait<0>();
    w.sync();
    LeftRows<W, width, 1, width <= 64> left_keys, left_values;
    left_keys.begin(w, own * pitch(width));
    left_values.begin(w, kValues + own * pitch(width));
    typename Mod::template OfKeys<W> mod;

    for (int step = 0; step < steps; ++step) {
      if (step > 0) {
        w.template wait<0>();
        w.sync();
      }
      if (step + 1 < steps) fetch(step + 1);
      if constexpr (Mod::kAdds) {
        if (step % seen == 0) mod.begin(w, of, b, group * sharing + step / seen, key + own);
      }
      const int stage = kStages + step % 2 * kStage, tile = (first_tile + step % seen) * kTile;
      const int last = smaller(tile + kTile, of.queries) - 1;
      const bool hides = tile + shift < key + own + 15 || last < tile + kTile - 1 || first_seen(of, b, last) > key;
      PE_UNROLL
      for (int column = 0; column < kTile; column += part) {
        const int row = tile + column;
        if (row + part - 1 + shift < key + own) continue;  // before all of the warp's keys
        Sums<W, 1, part> scores;
        clear<W, 1, part>(scores);
        multiply_rows<width, 1, part>(w, scores, left_keys, stage + column * pitch(width));
        if constexpr (Mod::kAdds) mod.template add<part>(w, scores, own, column, stage + kMod, scale);
        if (hides) hide(w, scores, b, key + own, row, shift);
        const float factor = Mod::kAdds ? 1.0F : scale;
        const Per<int, W> columns = w.lane() % 4 * 8 + (stage + 4 * column);
        PE_UNROLL
        for (int n = 0; n < part / 8; ++n) {
          Per<float, W> of_row[2];
          w.load_two(of_row, columns + (kLse + 32 * n));
          PE_UNROLL
          for (int i = 0; i < 4; ++i) scores[0][n][i] = W::exp2(scores[0][n][i] * factor - of_row[i % 2] * kLog2E);
        }
        multiply_columns<width, 1, part>(w, by_value, scores, stage + kValues + column * pitch(width));
        Sums<W, 1, part> wanted;
        clear<W, 1, part>(wanted);
        multiply_rows<width, 1, part>(w, wanted, left_values, stage + kValues + column * pitch(width));
        PE_UNROLL
        for (int n = 0; n < part / 8; ++n) {
          Per<float, W> of_row[2];
          w.load_two(of_row, columns + (kDelta + 32 * n));
          PE_UNROLL
          for (int i = 0; i < 4; ++i) scores[0][n][i] = scores[0][n][i] * (wanted[0][n][i] - of_row[i % 2]);
        }
        if constexpr (Mod::kSums) mod.template take<part>(w, scores, column, stage + kMod);
        multiply_columns<width, 1, part>(w, by_key, scores, stage + column * pitch(width));
      }
      if constexpr (Mod::kSums) {
        if (step % seen == seen - 1) mod.write(w, of, dgated, b, group * sharing + step / seen, key + own);
      }
    }
    const Per<float, W> scales[1][2] = {{of.scale, of.scale}}, ones[1][2] = {{1.0F, 1.0F}};
    write_rows<width, 1>(w, by_key, scales, head_at(dk, of.dk, b, group), of.dk.by_row, key + own,
                         static_cast<int>(of.keys));
    write_rows<width, 1>(w, by_value, ones, head_at(dv, of.dv, b, group), of.dv.by_row, key + own,
                         static_cast<int>(of.keys));
  }

  template <typename W>
  PE_BODY void hide(W& w, Sums<W, 1, part>& logits, int b, int key, int row, int shift) const {
    const Per<int, W> first_key = w.lane() / 4 + key, first_row = w.lane() % 4 * 2 + row;
    PE_UNROLL
    for (int n = 0; n < part / 8; ++n) {
      PE_UNROLL
      for (int e = 0; e < 2; ++e) {
        const Per<int, W> query = first_row + (8 * n + e);
        const auto there = query < static_cast<int>(of.queries);
        Per<int, W> start = 0;
        if (of.starts != nullptr) {
          start =
              Per<int, W>(W::read(of.starts + b * of.starts_by_sequence + shift, Per<std::int64_t, W>(query), there));
        }
        PE_UNROLL
        for (int r = 0; r < 2; ++r) {
          const Per<int, W> at = first_key + 8 * r;
          auto& logit = logits[0][n][2 * r + e];
          logit = W::select(there & (at <= query + shift) & (at >= start), logit, Per<float, W>(-INFINITY));
        }
      }
    }
  }
};

/// Gradients by queries: a block for each tile of queries, as forward. With `summed` also a row of partial sums of the
/// gradient by the table: what the tile's queries add to each distance up to `reach`.
template <int width, int part, typename Mod, bool summed>
struct AttentionQueryGradients {
  static constexpr int kAtOnce = width <= 64 ? 3 : 2;
  static constexpr int kValues = kTile * pitch(width), kStages = 2 * kValues;
  static constexpr int kMod = 2 * kValues, kStage = kMod + 4 * Mod::floats(1);
  static constexpr int kSums = kStages + 2 * kStage;
  /// A lane's sums over its scores' diagonals; 8 more floats a diagonal put what a warp reads at once into 32 banks.
  static constexpr int kDiagonals = kTile / 8 + 1, kDiagonal = 4 * (2 * kWarpLanes + 8),
                       kWarpSums = kDiagonals * kDiagonal - 32;
  static constexpr int kShared = kSums + (summed ? kWarps * kWarpSums : 0);

  PeCudaAttention of;
  const void *q, *k, *v, *dout;
  const float *lse, *delta;
  void* dq;
  float* partials;                ///< [count, S]
  std::int64_t first_row, count;  ///< of [H, B, tiles]: which blocks run
  PeCudaGatedGradients dgated;

  std::int64_t blocks() const { return count; }

  template <typename W>
  PE_BODY void operator()(W& w, std::int64_t block) const {
    const int in_head = tiles(of.queries), tile = in_head - 1 - static_cast<int>((first_row + block) % in_head);
    const int pair = static_cast<int>((first_row + block) / in_head), batch = static_cast<int>(of.batch);
    const int b = pair % batch, h = pair / batch;
    const int group = h / static_cast<int>(of.heads / of.groups), shift = static_cast<int>(of.keys - of.queries);
    const int first = tile * kTile, last = smaller(first + kTile, of.queries) - 1;
    const void *keys = head_at(k, of.k, b, group), *values = head_at(v, of.v, b, group);
    const int first_tile = first_seen(of, b, first) / kTile, last_tile = (last + shift) / kTile;
    const int last_start = first_seen(of, b, last), present = static_cast<int>(of.queries) - first;

    const auto fetch = [&](int at) {
      const int stage = kStages + at % 2 * kStage, key = at * kTile, present_keys = static_cast<int>(of.keys) - key;
      fetch_rows<width, kTile>(w, stage, row_at(keys, of.k, key), of.k.by_row, present_keys);
      fetch_rows<width, kTile>(w, stage + kValues, row_at(values, of.v, key), of.v.by_row, present_keys);
      Mod::template OfQueries<W, 1>::fetch(w, of, b, h, first + shift, key, stage + kMod);
      w.commit();
    };
    fetch_rows<width, kTile>(w, 0, row_at(head_at(q, of.q, b, h), of.q, first), of.q.by_row, present);
    fetch_rows<width, kTile>(w, kValues, row_at(head_at(dout, of.dout, b, h), of.dout, first), of.dout.by_row, present);
    fetch(first_tile);

    const int own = w.warp() * 16;
    const float scale = of.scale * kLog2E;
    QueryMask<W, 1> mask;
    mask.begin(w, of, b, first + own, true);
    typename Mod::template OfQueries<W, 1> mod;
    mod.begin(w, of, b, h, first + own);
    Per<float, W> of_row[2], deltas[2];
    PE_UNROLL
    for (int r = 0; r < 2; ++r) {
      const Per<int, W> row = w.lane() / 4 + (first + own + 8 * r);
      const Per<std::int64_t, W> at = row + (b * of.heads + h) * of.queries;
      const auto there = row < static_cast<int>(of.queries);
      of_row[r] = W::read(lse, at, there) * kLog2E;
      deltas[r] = W::read(delta, at, there);
    }
    Sums<W, 1, width> sums;
    clear<W, 1, width>(sums);
    Per<float, W> carried = 0.0F;
    w.template wait<0>();
    w.sync();
    LeftRows<W, width, 1, width <= 64> left_queries, left_douts;
    left_queries.begin(w, own * pitch(width));
    left_douts.begin(w, kValues + own * pitch(width));

    for (int at = first_tile; at <= last_tile; ++at) {
      if (at > first_tile) {
        w.template wait<0>();
        w.sync();
      }
      if (at < last_tile) fetch(at + 1);
      const int stage = kStages + at % 2 * kStage, key = at * kTile;
      const bool hides = key + kTile - 1 > first + own + shift || key < last_start || present < kTile;
      Per<float, W> diagonals[kDiagonals][2];
      if constexpr (summed) {
        PE_UNROLL
        for (int i = 0; i < kDiagonals; ++i) diagonals[i][0] = diagonals[i][1] = 0.0F;
      }
      PE_UNROLL
      for (int column = 0; column < kTile; column += part) {
        if (key + column > first + own + 15 + shift) continue;
        Sums<W, 1, part> scores;
        clear<W, 1, part>(scores);
        multiply_rows<width, 1, part>(w, scores, left_queries, stage + column * pitch(width));
        if constexpr (Mod::kAdds) mod.template add<part>(w, scores, own, column, stage + kMod, scale);
        if (hides) mask.template hide<part>(w, scores, key + column);
        const float factor = Mod::kAdds ? 1.0F : scale;
        Sums<W, 1, part> wanted;
        clear<W, 1, part>(wanted);
        multiply_rows<width, 1, part>(w, wanted, left_douts, stage + kValues + column * pitch(width));
        PE_UNROLL
        for (int n = 0; n < part / 8; ++n) {
          PE_UNROLL
          for (int i = 0; i < 4; ++i) {
            scores[0][n][i] = W::exp2(scores[0][n][i] * factor - of_row[i / 2]) * (wanted[0][n][i] - deltas[i / 2]);
            if constexpr (summed) {
              auto& diagonal = diagonals[i / 2 - n - column / 8 + kTile / 8 - 1][i % 2];
              diagonal = diagonal + scores[0][n][i];
            }
          }
        }
        if constexpr (Mod::kSums) mod.template take<part>(w, scores, column, stage + kMod);
        multiply_columns<width, 1, part>(w, sums, scores, stage + column * pitch(width));
      }
      if constexpr (summed) {
        add_diagonals(w, diagonals, carried, block, first + shift - key - (kTile - 1), at - first_tile,
                      at == last_tile);
      }
    }
    if constexpr (summed) {  // distances to tiles before all documents of the rows
      const int reach = smaller(first + shift + kTile, of.keys);
      for (int from = first + shift - first_tile * kTile + kTile + 1; from < reach; from += kThreads) {
        const Per<int, W> distance = w.thread() + from;
        W::write(partials + block * of.keys, Per<std::int64_t, W>(distance), Per<float, W>(0.0F), distance < reach);
      }
    }
    if constexpr (Mod::kSums) mod.write(w, of, dgated, b, h, first + own);
    const Per<float, W> scales[1][2] = {{of.scale, of.scale}};
    write_rows<width, 1>(w, sums, scales, head_at(dq, of.dq, b, h), of.dq.by_row, first + own,
                         static_cast<int>(of.queries));
  }

  /// From a lane's diagonals to the tile's. Of the tile's 128 distances from `base` on (the last is not its own) the
  /// next tile has the lower half as its upper one: lanes keep it, and the halves of the block change places at each
  /// tile.
  template <typename W>
  PE_BODY void add_diagonals(W& w, const Per<float, W> (&diagonals)[kDiagonals][2], Per<float, W>& carried,
                             std::int64_t block, int base, int turn, bool is_last) const {
    const Per<int, W> group = w.lane() / 4, pair = w.lane() % 4;
    PE_UNROLL
    for (int i = 0; i < kDiagonals; ++i) {
      PE_UNROLL
      for (int e = 0; e < 2; ++e) {
        w.store((pair * 8 + group) * 4 + (kSums + w.warp() * kWarpSums + i * kDiagonal + 4 * kWarpLanes * e),
                diagonals[i][e]);
      }
    }
    w.sync();
    const bool upper = (w.warp() * kWarpLanes + turn % 2 * kTile) % kThreads >= kTile;
    const Per<int, W> index = (w.thread() + turn % 2 * kTile) % kThreads;
    Per<float, W> sum = carried;
    PE_UNROLL
    for (int from = 0; from < kWarps; ++from) {
      PE_UNROLL
      for (int column = 0; column < 8; ++column) {  // modulo 8; the row follows from the distance
        // Unsigned: what lies before the strip's first diagonal is past its last one.
        const Per<std::uint32_t, W> line(index + (column + 1 - 8 - 16 * from));
        sum = sum + w.load(Per<int, W>(line / 8 * kDiagonal + line % 8 * 4) +
                               (kSums + from * kWarpSums + column % 2 * 4 * kWarpLanes + column / 2 * 32),
                           line < 8U * kDiagonals);
      }
    }
    const Per<int, W> distance = index + base;
    W::write(partials + block * of.keys, Per<std::int64_t, W>(distance), sum,
             (distance >= 0) & (distance < static_cast<int>(of.keys)) & Per<bool, W>(upper || is_last));
    if (upper)
      carried = 0.0F;
    else
      carried = sum;
  }
};

/// gradient[h, distance] += the partial sums of the head's rows among those from `first_row` on: each warp of a block
/// those of every fourth row for 32 distances, several rows under way at once.
struct FoldDistances {
  static constexpr int kAtOnce = 8, kShared = 4 * kThreads, kTogether = 8;
  PeCudaAttention of;
  const float* partials;  ///< [count, S]
  float* gradient;
  std::int64_t first_row, count;

  PE_BODY static std::int64_t earlier(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
  std::int64_t in_head() const { return of.batch * tiles(of.queries); }
  std::int64_t blocks() const {
    return ((first_row + count - 1) / in_head() - first_row / in_head() + 1) * tiles(of.keys, kWarpLanes);
  }

  template <typename W>
  PE_BODY void operator()(W& w, std::int64_t block) const {
    const int chunks = tiles(of.keys, kWarpLanes), in_sequence = tiles(of.queries);
    const std::int64_t rows = of.batch * in_sequence, h = first_row / rows + block / chunks;
    const Per<int, W> distance = w.lane() + static_cast<int>(block % chunks) * kWarpLanes;
    const std::int64_t begin = h * rows < first_row ? first_row : h * rows,
                       end = earlier((h + 1) * rows, first_row + count);
    Per<float, W> sum = 0.0F;
    for (std::int64_t row = begin + w.warp(); row < end; row += kWarps * kTogether) {
      Per<float, W> read[kTogether];
      PE_UNROLL
      for (int i = 0; i < kTogether; ++i) {
        const std::int64_t at = row + i * kWarps;
        const int tile = in_sequence - 1 -
                         static_cast<int>(static_cast<std::uint32_t>(at) % static_cast<std::uint32_t>(in_sequence));
        const int reach = at < end ? smaller(of.keys - of.queries + (tile + 1) * kTile, of.keys) : 0;
        read[i] = W::read(partials + (at - first_row) * of.keys, Per<std::int64_t, W>(distance), distance < reach);
      }
      PE_UNROLL
      for (int i = 0; i < kTogether; ++i) sum = sum + read[i];
    }
    w.store(w.thread() * 4, sum);
    w.sync();
    if (w.warp() != 0) return;
    for (int other = 1; other < kWarps; ++other) sum = sum + w.load((w.lane() + other * kWarpLanes) * 4);
    const auto there = distance < static_cast<int>(of.keys);
    const Per<std::int64_t, W> at = Per<std::int64_t, W>(distance) + h * of.keys;
    W::write(gradient, at, W::read(gradient, at, there) + sum, there);
  }
};

// ---- Launches -------------------------------------------------------------------------------------------------------

/// `On::blocks(body, stream)` runs body.blocks() blocks of kWarps warps, 0 on success.
template <typename On>
struct AttentionLaunchers {
  static constexpr int kRefused = 1;  ///< cudaErrorInvalidValue

  static bool takes(const PeCudaAttention& of) {
    for (const PeCudaStrides* strides : {&of.q, &of.k, &of.v, &of.out, &of.dout, &of.dq, &of.dk, &of.dv}) {
      if (strides->by_sequence % 8 != 0 || strides->by_head % 8 != 0 || strides->by_row % 8 != 0) return false;
    }
    return pe_cuda_attends(of.width) && of.groups > 0 && of.heads % of.groups == 0 && of.queries <= of.keys;
  }
  /// Of shared memory that a block needs, in bytes.
  static int shared_for(std::int64_t width) {
    PeCudaAttention of;
    of.width = width;
    return sized(of, [&]<int width_of>() {
      constexpr int kStrips = width_of <= 64 ? 2 : 1, kPart = width_of <= 64 ? 64 : 32;
      constexpr int kNeeds[] = {AttentionForward<width_of, kStrips, ByDistance>::kShared,
                                AttentionForward<width_of, kStrips, GatedDistance>::kShared,
                                AttentionKeyGradients<width_of, kPart, GatedDistance>::kShared,
                                AttentionQueryGradients<width_of, 32, ByDistance, true>::kShared,
                                AttentionQueryGradients<width_of, kPart, GatedDistance, false>::kShared};
      int most = 0;
      for (const int bytes : kNeeds) most = bytes > most ? bytes : most;
      return most;
    });
  }
  static bool is_empty(const PeCudaAttention& of) { return of.batch == 0 || of.heads == 0 || of.queries == 0; }

  /// Calls with.operator()<width>().
  template <typename With>
  static int sized(const PeCudaAttention& of, const With& with) {
    if (of.width == 32) return with.template operator()<32>();
    if (of.width == 64) return with.template operator()<64>();
    return with.template operator()<128>();
  }

  /// Calls with.operator()<Mod>().
  template <typename With>
  static int modified(const PeCudaAttention& of, const With& with) {
    if (of.places != nullptr) return with.template operator()<GatedDistance>();
    if (of.table != nullptr) return with.template operator()<ByDistance>();
    return with.template operator()<Plain>();
  }

  static int attention(const PeCudaAttention* of, const void* q, const void* k, const void* v, void* out, float* lse,
                       void* stream) {
    if (!takes(*of)) return kRefused;
    if (is_empty(*of)) return 0;
    return sized(*of, [&]<int width>() {
      constexpr int kStrips = width <= 64 ? 2 : 1;
      return modified(*of, [&]<typename Mod>() {
        return On::blocks(AttentionForward<width, kStrips, Mod>{*of, q, k, v, out, lse}, stream);
      });
    });
  }

  static int attention_backward(const PeCudaAttention* of, const void* q, const void* k, const void* v,
                                const void* dout, const float* lse, const float* delta, void* dq, void* dk, void* dv,
                                float* dtable, float* scratch, const PeCudaGatedGradients* dgated, void* stream) {
    return backward(of, q, k, v, dout, lse, delta, dq, dk, dv, dtable, scratch, pe_cuda_attention_scratch(*of), dgated,
                    stream);
  }

  /// @param floats  of scratch memory; where all partial sums need more, they come in slices
  static int backward(const PeCudaAttention* of, const void* q, const void* k, const void* v, const void* dout,
                      const float* lse, const float* delta, void* dq, void* dk, void* dv, float* dtable, float* scratch,
                      std::int64_t floats, const PeCudaGatedGradients* dgated, void* stream) {
    if (!takes(*of) || (dtable != nullptr && of->table == nullptr) || (of->places != nullptr && dgated == nullptr))
      return kRefused;
    if (is_empty(*of)) return 0;
    return sized(*of, [&]<int width>() {
      constexpr int kPart = width <= 64 ? 64 : 32;
      const PeCudaGatedGradients gated = dgated != nullptr ? *dgated : PeCudaGatedGradients{};
      const auto by_query = [&]<typename Mod, bool summed>(std::int64_t first, std::int64_t count) {
        constexpr int kFewer = summed ? 32 : kPart;  // leaves registers for the sums
        return On::blocks(AttentionQueryGradients<width, kFewer, Mod, summed>{*of, q, k, v, dout, lse, delta, dq,
                                                                              scratch, first, count, gated},
                          stream);
      };
      const std::int64_t rows = of->batch * of->heads * tiles(of->queries);
      const int status = modified(*of, [&]<typename Mod>() {
        return On::blocks(AttentionKeyGradients<width, kPart, Mod>{*of, q, k, v, dout, lse, delta, dk, dv, gated},
                          stream);
      });
      if (status != 0) return status;
      if (dtable == nullptr || of->places != nullptr) {
        return modified(*of, [&]<typename Mod>() { return by_query.template operator()<Mod, false>(0, rows); });
      }
      const std::int64_t at_once = floats / of->keys;
      for (std::int64_t first = 0; first < rows; first += at_once) {
        const std::int64_t count = at_once < rows - first ? at_once : rows - first;
        if (const int failed = by_query.template operator()<ByDistance, true>(first, count)) return failed;
        if (const int failed = On::blocks(FoldDistances{*of, scratch, dtable, first, count}, stream)) return failed;
      }
      return 0;
    });
  }

  static void fill(PeCudaTable& table) {
    table.attention = attention;
    table.attention_backward = attention_backward;
  }
};

}  // namespace pe::cuda
