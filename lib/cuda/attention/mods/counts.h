/// @file
/// A bias that a row reads at counts of keys: CoPE.
#pragma once

#include "cuda/attention/scan.h"

namespace pe::cuda {

/// A key's gate is σ(scale · q·k), and its count p is the sum of the gates of the key and all nearer ones, at most
/// `positions` − 1. The row has a logit for each whole count; the bias is on the line between the two next to p. Let
/// s be the slope of that line, 0 at the bound, and D the sum of s times the gradient by a logit over the key and all
/// farther ones. Then the gradient by a score is its logit's, plus D · gate · (1 − gate).
///
/// In tiles where all counts are at the bound, the bias is one number a row.
struct Counts {
  static constexpr bool kAdds = false, kScans = true, kSoftmax = true, kSumsByQuery = false, kSumsByKey = false;
  PE_SIZE static int floats(int) { return kScanFloats; }

  /// @param z  a logit times log2(e)
  template <typename W>
  PE_BODY static Per<float, W> gate_of(const Per<float, W>& z) {
    return 1.0F / (W::exp2(z * -1.0F) + 1.0F);
  }

  /// The logits of a head's rows.
  template <typename W>
  struct Line {
    const float* logits;  ///< [T, positions]
    std::int64_t head;    ///< before it, in all logits
    int positions;

    PE_BODY void begin(const PeCudaAttention& of, int b, int h) {
      positions = static_cast<int>(of.counts.positions);
      head = (b * of.heads + h) * of.queries * positions;
      logits = of.counts.logits + head;
    }
    PE_BODY float bound() const { return static_cast<float>(positions - 1); }
    PE_BODY Per<float, W> bounded(const Per<float, W>& count) const {
      return W::select(count < bound(), count, Per<float, W>(bound()));
    }
    /// The bias of a bounded count. @param row  of logits. @param slope  by the count, written
    PE_BODY Per<float, W> read(const Per<std::int64_t, W>& row, const Per<bool, W>& there, const Per<float, W>& count,
                               Per<float, W>& slope) const {
      const Per<int, W> below(count);
      const auto inside = below < positions - 1;
      const Per<std::int64_t, W> at = row * static_cast<std::int64_t>(positions) + Per<std::int64_t, W>(below);
      const Per<float, W> low = W::read(logits, at, there),
                          high = W::read(logits, at + std::int64_t{1}, there & inside);
      slope = W::select(inside, high - low, Per<float, W>(0.0F));
      return low + (count - Per<float, W>(below)) * slope;
    }
  };

  /// Sums are of gates over nearer keys; in gradients of s times slopes over farther ones.
  template <typename W, int strips>
  struct OfQueries : ScanOfQueries<W, strips> {
    using Scan = ScanOfQueries<W, strips>;
    using Scan::sums, Scan::nearer, Scan::farther, Scan::write_border, Scan::row;
    Line<W> line;

    PE_BODY void begin(W& w, const PeCudaAttention& of, int b, int h, int first) {
      Scan::begin(w, of, b, h, first);
      line.begin(of, b, h);
    }
    PE_BODY static void fetch(W&, const PeCudaAttention&, int, int, int, int, int) {}

    PE_BODY Per<bool, W> there(int strip, int r) const { return Scan::has(strip, r, 0); }
    /// Counts of two keys that follow each other, from their gates. The sum grows by the gates of all the row's lanes.
    PE_BODY void count_two(W& w, Per<float, W>& sum, const Per<float, W>& far_gate, const Per<float, W>& near_gate,
                           Per<float, W>& far, Per<float, W>& near) const {
      Per<float, W> all = far_gate + near_gate;
      const Per<float, W> to_near = sum + sum_of_others<1, 4, true>(w, all) + near_gate;
      far = line.bounded(to_near + far_gate);
      near = line.bounded(to_near);
      sum = sum + all;
    }
    /// Makes logits of a tile's scores. Tiles come in descending order.
    PE_BODY void add(W& w, Sums<W, strips, kTile>& scores, float scale, const TilePlace& at) {
      PE_UNROLL
      for (int strip = 0; strip < strips; ++strip) {
        PE_UNROLL
        for (int n = kTile / 8 - 1; n >= 0; --n) {
          PE_UNROLL
          for (int r = 0; r < 2; ++r) {
            if (n % 2 == 1 && nearer != nullptr) write_border(w, nearer, strip, r, at.first / kScanBlock + n / 2);
            Per<float, W> count[2], slope;
            PE_UNROLL
            for (int e = 0; e < 2; ++e) scores[strip][n][2 * r + e] = scores[strip][n][2 * r + e] * scale;
            count_two(w, sums[strip][r], gate_of<W>(scores[strip][n][2 * r]), gate_of<W>(scores[strip][n][2 * r + 1]),
                      count[0], count[1]);
            PE_UNROLL
            for (int e = 0; e < 2; ++e) {
              const Per<float, W> bias = line.read(row[r] + 16 * strip, there(strip, r), count[e], slope);
              scores[strip][n][2 * r + e] = scores[strip][n][2 * r + e] + bias * kLog2E;
            }
          }
        }
      }
    }
    /// Makes slopes of scores, from the gradients by weights. Tiles come in ascending order.
    /// @param gradient  by the logits of counts, added to
    template <int columns>
    PE_BODY void find_slopes(W& w, Sums<W, strips, columns>& scores, const Sums<W, strips, columns>& wanted,
                             const TilePlace& at, float scale, const Per<float, W> (&lse)[2],
                             const Per<float, W> (&delta)[2], float* gradient) {
      const int key = at.first + at.column;
      PE_UNROLL
      for (int n = 0; n < columns / 8; n += 2) {
        PE_UNROLL
        for (int r = 0; r < 2; ++r) {
          Per<float, W> nearer_sum = Scan::sum_of_nearer(r, key / kScanBlock + n / 2), gate[4], count[4], by_count[4];
          PE_UNROLL
          for (int m = 1; m >= 0; --m) {
            PE_UNROLL
            for (int e = 0; e < 2; ++e) gate[2 * m + e] = gate_of<W>(scores[0][n + m][2 * r + e] * scale);
            count_two(w, nearer_sum, gate[2 * m], gate[2 * m + 1], count[2 * m], count[2 * m + 1]);
          }
          PE_UNROLL
          for (int i = 0; i < 4; ++i) {
            Per<float, W>& score = scores[0][n + i / 2][2 * r + i % 2];
            const Per<float, W> bias = line.read(row[r], there(0, r), count[i], by_count[i]);
            score = W::exp2(score * scale + bias * kLog2E - lse[r]) * (wanted[0][n + i / 2][2 * r + i % 2] - delta[r]);
            by_count[i] = by_count[i] * score;
          }
          add_by_logits(w, gradient, r, count, scores[0][n], scores[0][n + 1]);
          write_border(w, farther, 0, r, key / kScanBlock + n / 2);
          PE_UNROLL
          for (int m = 0; m < 2; ++m) {
            Per<float, W> all = by_count[2 * m] + by_count[2 * m + 1];
            const Per<float, W> to_far = sums[0][r] + sum_of_others<1, 4, false>(w, all) + by_count[2 * m];
            const Per<float, W> to[2] = {to_far, to_far + by_count[2 * m + 1]};
            PE_UNROLL
            for (int e = 0; e < 2; ++e) {
              const Per<float, W>& open = gate[2 * m + e];
              scores[0][n + m][2 * r + e] = scores[0][n + m][2 * r + e] + to[e] * (open - open * open);
            }
            sums[0][r] = sums[0][r] + all;
          }
        }
      }
    }
    /// Adds slopes of 16 keys to the gradients by the logits next to their counts: to each whole count in turn.
    PE_BODY void add_by_logits(W& w, float* gradient, int r, const Per<float, W> (&count)[4],
                               const Per<float, W> (&first)[4], const Per<float, W> (&second)[4]) const {
      Per<float, W> high = count[0], low = count[0] * -1.0F;  // the latter negative
      PE_UNROLL
      for (int i = 1; i < 4; ++i) {
        high = W::larger(high, count[i]);
        low = W::larger(low, count[i] * -1.0F);
      }
      const float highest = w.highest(high), lowest = -w.highest(low);
      const int end = smaller(static_cast<int>(highest) + 2, line.positions);
      const auto writes = there(0, r) & (w.lane() % 4 == 0);
      PE_LOOP
      for (int whole = static_cast<int>(lowest); whole < end; ++whole) {
        Per<float, W> sum = 0.0F;
        PE_UNROLL
        for (int i = 0; i < 4; ++i) {
          const Per<float, W> off = count[i] - static_cast<float>(whole);
          const Per<float, W> part = W::larger(1.0F - W::larger(off, off * -1.0F), Per<float, W>(0.0F));
          sum = sum + part * (i < 2 ? first : second)[2 * r + i % 2];
        }
        sum = sum_of_row(w, sum);
        const Per<std::int64_t, W> at = row[r] * static_cast<std::int64_t>(line.positions) + std::int64_t{whole};
        W::write(gradient, at + line.head, W::read(gradient, at + line.head, writes) + sum, writes);
      }
    }
  };

  template <typename W>
  struct OfKeys : ScanOfKeys<W> {
    Line<W> line;
    int queries;

    PE_BODY void begin(W&, const PeCudaAttention& of, int b, int h, int) {
      line.begin(of, b, h);
      queries = static_cast<int>(of.queries);
    }
    /// Makes logits of scores. @param gains  of a logit by its score through the count's gate: gate · (1 − gate), and
    /// @param by_count  of a logit by its count, written
    template <int columns>
    PE_BODY void add(W& w, Sums<W, 1, columns>& scores, Sums<W, 1, columns>& gains, Sums<W, 1, columns>& by_count,
                     const TilePlace& at, float scale) const {
      PE_UNROLL
      for (int n = 0; n < columns / 8; ++n) {
        Per<float, W> gates[4], nearer[4];
        PE_UNROLL
        for (int i = 0; i < 4; ++i) gates[i] = gate_of<W>(scores[0][n][i] * scale);
        ScanOfKeys<W>::template sum_before<0>(w, nearer, at, n, gates);
        PE_UNROLL
        for (int i = 0; i < 4; ++i) {
          const Per<int, W> query = w.lane() % 4 * 2 + (at.first + at.column + 8 * n + i % 2);
          const Per<float, W> bias = line.read(Per<std::int64_t, W>(query), query < queries,
                                               line.bounded(nearer[i] + gates[i]), by_count[0][n][i]);
          scores[0][n][i] = scores[0][n][i] * scale + bias * kLog2E;
          gains[0][n][i] = gates[i] - gates[i] * gates[i];
        }
      }
    }
    /// Adds the terms of the counts of farther keys to slopes of logits.
    template <int columns>
    PE_BODY void scan_back(W& w, Sums<W, 1, columns>& slopes, const Sums<W, 1, columns>& gains,
                           const Sums<W, 1, columns>& by_count, const TilePlace& at) const {
      PE_UNROLL
      for (int n = 0; n < columns / 8; ++n) {
        Per<float, W> own[4], farther[4];
        PE_UNROLL
        for (int i = 0; i < 4; ++i) own[i] = by_count[0][n][i] * slopes[0][n][i];
        ScanOfKeys<W>::template sum_before<1>(w, farther, at, n, own);
        PE_UNROLL
        for (int i = 0; i < 4; ++i) slopes[0][n][i] = slopes[0][n][i] + gains[0][n][i] * (farther[i] + own[i]);
      }
    }
  };
};

}  // namespace pe::cuda
