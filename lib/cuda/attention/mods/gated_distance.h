/// @file
/// The bias of gated distances: FoX, CABLE, GRAPE-A.
#pragma once

#include "cuda/attention/tiles.h"

namespace pe::cuda {

/// (gate of the query + gate of the key) · (place of the key − place of the query), with the gradients by all four.
struct GatedDistance {
  static constexpr bool kAdds = true, kScans = false, kSoftmax = true, kSumsByQuery = true, kSumsByKey = true;
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
    /// Calls with(strip, i, n, way, gate) for each score: the place of the key less the place of the query, and
    /// the sum of gates.
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
    PE_BODY void add(W& w, Sums<W, strips, columns>& scores, const TilePlace& at, float scale) const {
      each<columns>(w, at.column, at.mod,
                    [&](int strip, int i, int n, const Per<float, W>& way, const Per<float, W>& both) {
                      scores[strip][n][i] = scores[strip][n][i] * scale + way * both * kLog2E;
                    });
    }
    template <int columns>
    PE_BODY void take(W& w, const Sums<W, strips, columns>& slopes, const TilePlace& at) {
      each<columns>(
          w, at.column, at.mod, [&](int strip, int i, int n, const Per<float, W>& way, const Per<float, W>& both) {
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
          W::write(gates, Per<std::int64_t, W>(row), sum_of_row(w, by_gate[strip][r]), writes);
          W::write(places, Per<std::int64_t, W>(row), sum_of_row(w, by_place[strip][r]), writes);
        }
      }
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
    PE_BODY void write(W& w, const PeCudaAttention& of, const PeCudaBiasGradients& to, int b, int h, int first) {
      const std::int64_t at = head(of, b, h) * of.queries;
      this->end(w, to.gated.query_gates + at, to.gated.query_places + at, first, static_cast<int>(of.queries));
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
    PE_BODY void write(W& w, const PeCudaAttention& of, const PeCudaBiasGradients& to, int b, int h, int key) {
      const std::int64_t at = head(of, b, h) * of.keys;
      this->end(w, to.gated.key_gates + at, to.gated.key_places + at, key, static_cast<int>(of.keys));
    }
  };
};

}  // namespace pe::cuda
