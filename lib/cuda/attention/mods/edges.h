/// @file
/// A bias that sums costs of the keys between a key and its row: GRAPE-AP.
#pragma once

#include "cuda/attention/scan.h"

namespace pe::cuda {

/// Eight numbers of a row and eight of a key have the product x, and the key's cost is slope · ln σ(x). The bias of a
/// key is the sum C of the costs of all nearer keys. Let D be the sum of the slopes of logits over all farther keys.
/// Then the gradient by x is slope · (1 − σ(x)) · D.
///
/// A number is the sum of two bf16 ones, high + low. Rows are high, low, high, low, and keys are high, high, low,
/// low, so one product of 32 has all four terms.
struct Edges {
  static constexpr bool kAdds = false, kScans = true, kSoftmax = true, kSumsByQuery = true, kSumsByKey = true;
  static constexpr int kNumbers = pe_cuda_edge_numbers, kHalves = 4 * kNumbers;
  static_assert(kNumbers == 8);
  /// Borders, where rows are keys, and halves of the rows that are columns.
  PE_SIZE static int floats(int) { return kScanFloats + kTile * pitch(kHalves) / 4; }

  PE_BODY static const void* halves(const void* from, std::int64_t row) {
    return static_cast<const char*>(from) + 2 * kHalves * row;
  }

  /// A left operand, read from memory.
  template <typename W, int strips>
  struct Left {
    Per<std::uint32_t, W> kept[strips][kHalves / 16][4];

    PE_BODY void begin(W& w, const void* head, int first, std::int64_t rows) {
      PE_UNROLL
      for (int strip = 0; strip < strips; ++strip) {
        PE_UNROLL
        for (int i = 0; i < 4; ++i) {
          const Per<int, W> row = w.lane() / 4 + (first + 16 * strip + i % 2 * 8);
          const Per<std::int64_t, W> at =
              Per<std::int64_t, W>(row) * std::int64_t{kHalves / 2} + Per<std::int64_t, W>(w.lane() % 4 + i / 2 * 4);
          PE_UNROLL
          for (int step = 0; step < kHalves / 16; ++step) {
            kept[strip][step][i] = W::read(static_cast<const std::uint32_t*>(head), at + std::int64_t{8 * step},
                                           row < static_cast<int>(rows));
          }
        }
      }
    }
    PE_BODY void get(W&, int strip, int step, Per<std::uint32_t, W> (&to)[4]) const {
      PE_UNROLL
      for (int i = 0; i < 4; ++i) to[i] = kept[strip][step][i];
    }
  };

  /// A lane's rows of one side, and the gradients by their numbers.
  template <typename W, int strips>
  struct Side {
    Left<W, strips> left;
    float slope;
    Sums<W, 1, kHalves> by_halves;

    PE_BODY void begin(W& w, const PeCudaAttention& of, int h, const void* head, int first, std::int64_t rows) {
      left.begin(w, head, first, rows);
      slope = of.edges.slopes[h];
      clear<W, 1, kHalves>(by_halves);
    }
    /// x of 16 columns. @param columns  in shared memory
    PE_BODY void multiply(W& w, Sums<W, strips, 16>& x, int columns) const {
      clear<W, strips, 16>(x);
      multiply_rows<kHalves, strips, 16>(w, x, left, columns);
    }
    /// The cost times log2(e), 0 where the score is hidden. @param rest  1 − σ(x), written
    PE_BODY Per<float, W> cost(const Per<float, W>& x, const Per<float, W>& score, Per<float, W>& rest) const {
      const auto seen = score > -INFINITY;
      const Per<float, W> z = x * -kLog2E, all = log2_of_one_plus_exp2<W>(z);
      rest = W::select(seen, W::exp2(z - all), Per<float, W>(0.0F));
      return W::select(seen, all * -slope, Per<float, W>(0.0F));
    }
    /// @param by_x  gradients for 16 columns
    PE_BODY void take(W& w, const Sums<W, 1, 16>& by_x, int columns) {
      multiply_columns<kHalves, 1, 16>(w, by_halves, by_x, columns);
    }
    /// Writes gradients by numbers. @param other  the low part of the columns' first eight halves
    PE_BODY void write(W& w, float* head, int first, std::int64_t rows, int other) const {
      PE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const Per<int, W> row = w.lane() / 4 + (first + i / 2 * 8);
        W::write(head,
                 Per<std::int64_t, W>(row) * std::int64_t{kNumbers} + Per<std::int64_t, W>(w.lane() % 4 * 2 + i % 2),
                 by_halves[0][0][i] + by_halves[0][other][i], row < static_cast<int>(rows));
      }
    }
  };

  /// Sums are of costs over nearer keys; in gradients of slopes over farther ones.
  template <typename W, int strips>
  struct OfQueries : ScanOfQueries<W, strips> {
    using Scan = ScanOfQueries<W, strips>;
    using Scan::sums, Scan::nearer, Scan::farther, Scan::write_border;
    Side<W, strips> side;

    PE_BODY void begin(W& w, const PeCudaAttention& of, int b, int h, int first) {
      Scan::begin(w, of, b, h, first);
      side.begin(w, of, h, halves(of.edges.queries, (b * of.heads + h) * of.queries), first, of.queries);
    }
    PE_BODY static void fetch(W& w, const PeCudaAttention& of, int b, int h, int, int key, int to) {
      fetch_rows<kHalves, kTile>(w, to, halves(of.edges.keys, (b * of.heads + h) * of.keys + key), kHalves,
                                 static_cast<int>(of.keys) - key);
    }
    PE_BODY static int columns(const TilePlace& at, int block) {
      return at.mod + (at.column + kScanBlock * block) * pitch(kHalves);
    }
    /// Biases of two keys that follow each other, from their costs. The sum grows by the costs of all the row's lanes.
    PE_BODY static void sum_two(W& w, Per<float, W>& sum, const Per<float, W> (&cost)[2], Per<float, W> (&bias)[2]) {
      Per<float, W> all = cost[0] + cost[1];
      bias[1] = sum + sum_of_others<1, 4, true>(w, all);
      bias[0] = bias[1] + cost[1];
      sum = sum + all;
    }
    /// Makes logits of a tile's scores. Tiles come in descending order.
    PE_BODY void add(W& w, Sums<W, strips, kTile>& scores, float scale, const TilePlace& at) {
      PE_UNROLL
      for (int block = kScanBlocks - 1; block >= 0; --block) {
        Sums<W, strips, 16> x;
        side.multiply(w, x, columns(at, block));
        PE_UNROLL
        for (int strip = 0; strip < strips; ++strip) {
          PE_UNROLL
          for (int r = 0; r < 2; ++r) {
            if (nearer != nullptr) write_border(w, nearer, strip, r, at.first / kScanBlock + block);
            PE_UNROLL
            for (int m = 1; m >= 0; --m) {
              Per<float, W> cost[2], bias[2], rest;
              PE_UNROLL
              for (int e = 0; e < 2; ++e)
                cost[e] = side.cost(x[strip][m][2 * r + e], scores[strip][2 * block + m][2 * r + e], rest);
              sum_two(w, sums[strip][r], cost, bias);
              PE_UNROLL
              for (int e = 0; e < 2; ++e) {
                Per<float, W>& score = scores[strip][2 * block + m][2 * r + e];
                score = score * scale + bias[e];
              }
            }
          }
        }
      }
    }
    /// Makes slopes of scores, from the gradients by weights. Tiles come in ascending order.
    template <int part>
    PE_BODY void find_slopes(W& w, Sums<W, strips, part>& scores, const Sums<W, strips, part>& wanted,
                             const TilePlace& at, float scale, const Per<float, W> (&lse)[2],
                             const Per<float, W> (&delta)[2], float*) {
      PE_UNROLL
      for (int block = 0; block < part / kScanBlock; ++block) {
        const int border = (at.first + at.column) / kScanBlock + block;
        Sums<W, 1, 16> x;  // then gradients by it
        side.multiply(w, x, columns(at, block));
        PE_UNROLL
        for (int r = 0; r < 2; ++r) {
          Per<float, W> nearer_sum = Scan::sum_of_nearer(r, border);
          write_border(w, farther, 0, r, border);
          PE_UNROLL
          for (int m = 1; m >= 0; --m) {
            Per<float, W> cost[2], bias[2];
            PE_UNROLL
            for (int e = 0; e < 2; ++e) {
              Per<float, W> rest;
              cost[e] = side.cost(x[0][m][2 * r + e], scores[0][2 * block + m][2 * r + e], rest);
              x[0][m][2 * r + e] = rest * side.slope;
            }
            sum_two(w, nearer_sum, cost, bias);
            PE_UNROLL
            for (int e = 0; e < 2; ++e) {
              Per<float, W>& score = scores[0][2 * block + m][2 * r + e];
              score = W::exp2(score * scale + bias[e] - lse[r]) * (wanted[0][2 * block + m][2 * r + e] - delta[r]);
            }
          }
          PE_UNROLL
          for (int m = 0; m < 2; ++m) {
            const Per<float, W>&far = scores[0][2 * block + m][2 * r], &near = scores[0][2 * block + m][2 * r + 1];
            Per<float, W> all = far + near;
            const Per<float, W> before = sums[0][r] + sum_of_others<1, 4, false>(w, all);
            x[0][m][2 * r] = x[0][m][2 * r] * before;
            x[0][m][2 * r + 1] = x[0][m][2 * r + 1] * (before + far);
            sums[0][r] = sums[0][r] + all;
          }
        }
        side.take(w, x, columns(at, block));
      }
    }
    PE_BODY void write(W& w, const PeCudaAttention& of, const PeCudaBiasGradients& to, int b, int h, int first) const {
      side.write(w, to.edges.queries + (b * of.heads + h) * of.queries * kNumbers, first, of.queries, 2);
    }
  };

  template <typename W>
  struct OfKeys : ScanOfKeys<W> {
    Side<W, 1> side;

    PE_BODY void begin(W& w, const PeCudaAttention& of, int b, int h, int first) {
      side.begin(w, of, h, halves(of.edges.keys, (b * of.heads + h) * of.keys), first, of.keys);
    }
    PE_BODY static void fetch(W& w, const PeCudaAttention& of, int b, int h, int row, int key, int to) {
      ScanOfKeys<W>::fetch(w, of, b, h, row, key, to);
      fetch_rows<kHalves, kTile>(w, to + 4 * kScanFloats,
                                 halves(of.edges.queries, (b * of.heads + h) * of.queries + row), kHalves,
                                 static_cast<int>(of.queries) - row);
    }
    PE_BODY static int columns(const TilePlace& at, int n) {
      return at.mod + 4 * kScanFloats + (at.column + 8 * n) * pitch(kHalves);
    }
    /// Makes logits of scores. @param gains  slope · (1 − σ(x)), written
    template <int part>
    PE_BODY void add(W& w, Sums<W, 1, part>& scores, Sums<W, 1, part>& gains, Sums<W, 1, part>&, const TilePlace& at,
                     float scale) const {
      PE_UNROLL
      for (int n = 0; n < part / 8; n += 2) {
        Sums<W, 1, 16> x;
        side.multiply(w, x, columns(at, n));
        PE_UNROLL
        for (int m = 0; m < 2; ++m) {
          Per<float, W> costs[4], nearer[4];
          PE_UNROLL
          for (int i = 0; i < 4; ++i) {
            Per<float, W> rest;
            costs[i] = side.cost(x[0][m][i], scores[0][n + m][i], rest);
            gains[0][n + m][i] = rest * side.slope;
          }
          ScanOfKeys<W>::template sum_before<0>(w, nearer, at, n + m, costs);
          PE_UNROLL
          for (int i = 0; i < 4; ++i) scores[0][n + m][i] = scores[0][n + m][i] * scale + nearer[i];
        }
      }
    }
    /// Sums gradients by numbers, from slopes of logits.
    template <int part>
    PE_BODY void scan_back(W& w, Sums<W, 1, part>& slopes, const Sums<W, 1, part>& gains, const Sums<W, 1, part>&,
                           const TilePlace& at) {
      PE_UNROLL
      for (int n = 0; n < part / 8; n += 2) {
        Sums<W, 1, 16> by_x;
        PE_UNROLL
        for (int m = 0; m < 2; ++m) {
          Per<float, W> farther[4];
          ScanOfKeys<W>::template sum_before<1>(w, farther, at, n + m, slopes[0][n + m]);
          PE_UNROLL
          for (int i = 0; i < 4; ++i) by_x[0][m][i] = gains[0][n + m][i] * farther[i];
        }
        side.take(w, by_x, columns(at, n));
      }
    }
    PE_BODY void write(W& w, const PeCudaAttention& of, const PeCudaBiasGradients& to, int b, int h, int first) const {
      side.write(w, to.edges.keys + (b * of.heads + h) * of.keys * kNumbers, first, of.keys, 1);
    }
  };
};

}  // namespace pe::cuda
