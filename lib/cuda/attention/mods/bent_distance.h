/// @file
/// The bias f(m(distance) · number of the row), where f is a line that bends at knots: FIRE.
#pragma once

#include "cuda/attention/tiles.h"

namespace pe::cuda {

/// A tile's inputs of f span few knots. So the rest of f is one line there, with a term for each knot among them.
/// Gradients are sums over rows of queries. Registers of a row hold its gradients by its number and by the parameter of
/// m; registers of a lane hold the sums past one knot.
struct BentDistance {
  static constexpr bool kAdds = true, kScans = false, kSoftmax = true, kSumsByQuery = true, kSumsByKey = false;
  static constexpr int kKnots = pe_cuda_knots;
  static_assert(kKnots == kWarpLanes);
  /// m of the distances of a tile; where it has one strip, also their derivatives, or the numbers of rows that are
  /// columns.
  PE_SIZE static int floats(int) { return 2 * kThreads; }

  /// f of a head.
  template <typename W>
  struct Bent {
    const float *knots, *bends, *pieces;
    Per<float, W> knot;  ///< this lane's
    int first, end;      ///< knots among a tile's inputs
    float slope;         ///< before them

    PE_BODY void begin(W& w, const PeCudaAttention& of, int h) {
      knots = of.bent.knots + h * kKnots;
      bends = of.bent.bends + h * kKnots;
      pieces = of.bent.pieces + h * 2 * (kKnots + 1);
      knot = W::read(knots, Per<std::int64_t, W>(w.lane()), w.lane() < kKnots);
    }
    /// Adds f(x(strip, n, i)) to each score.
    template <int strips, int columns, typename X>
    PE_BODY void add(W& w, Sums<W, strips, columns>& scores, float scale, const X& x) {
      Per<float, W> high = -INFINITY, low = -INFINITY;  // the latter negative
      each_score<strips, columns>([&](int strip, int n, int i) {
        const Per<float, W> input = x(strip, n, i);
        high = W::larger(high, input);
        low = W::larger(low, input * -1.0F);
      });
      first = w.count(knot <= -w.highest(low));
      end = w.count(knot < w.highest(high));
      slope = pieces[2 * first];
      const float steep = slope * kLog2E, offset = pieces[2 * first + 1] * kLog2E;
      each_score<strips, columns>([&](int strip, int n, int i) {
        scores[strip][n][i] = scores[strip][n][i] * scale + (x(strip, n, i) * steep + offset);
      });
      PE_LOOP
      for (int k = first; k < end; ++k) {
        const float from = knots[k], more = bends[k] * kLog2E;
        each_score<strips, columns>([&](int strip, int n, int i) {
          const Per<float, W> past = W::larger(x(strip, n, i) - from, Per<float, W>(0.0F));
          scores[strip][n][i] = scores[strip][n][i] + past * more;
        });
      }
    }
  };

  PE_BODY static std::int64_t head(const PeCudaAttention& of, int b, int h) { return b * of.heads + h; }

  template <typename W, int strips>
  struct OfQueries {
    Bent<W> bent;
    Per<float, W> number[strips][2], by_number[strips][2], by_parameter[strips][2];
    Per<float, W> past[2], all[2];  ///< sums of slopes, and of slopes times inputs: past this lane's knot, and of all

    PE_BODY void begin(W& w, const PeCudaAttention& of, int b, int h, int first) {
      bent.begin(w, of, h);
      PE_UNROLL
      for (int strip = 0; strip < strips; ++strip) {
        PE_UNROLL
        for (int r = 0; r < 2; ++r) {
          const Per<int, W> row = w.lane() / 4 + (first + 16 * strip + 8 * r);
          number[strip][r] = W::read(of.bent.numbers + head(of, b, h) * of.queries, Per<std::int64_t, W>(row),
                                     row < static_cast<int>(of.queries));
          by_number[strip][r] = by_parameter[strip][r] = 0.0F;
        }
      }
      past[0] = past[1] = all[0] = all[1] = 0.0F;
    }
    PE_BODY static void fetch(W& w, const PeCudaAttention& of, int, int h, int place, int key, int to) {
      const int first = place - key - (kTile - 1), keys = static_cast<int>(of.keys);
      fetch_floats<strips * kThreads>(w, to, of.bent.measure + h * of.keys, first, keys);
      if constexpr (strips == 1)  // as where gradients are summed
        fetch_floats<kThreads>(w, to + 4 * kThreads, of.bent.derivative + h * of.keys, first, keys);
    }
    template <int columns>
    PE_BODY void add(W& w, Sums<W, strips, columns>& scores, const TilePlace& at, float scale) {
      ByDiagonal<W, strips, columns> measure;
      measure.template load<1>(w, at, at.mod, 1.0F);
      bent.template add<strips, columns>(
          w, scores, scale, [&](int strip, int n, int i) { return measure.at(strip, n, i) * number[strip][i / 2]; });
    }
    template <int columns>
    PE_BODY void take(W& w, const Sums<W, strips, columns>& slopes, const TilePlace& at) {
      ByDiagonal<W, strips, columns> measure, derivative;
      measure.template load<1>(w, at, at.mod, 1.0F);
      derivative.template load<1>(w, at, at.mod + 4 * kThreads, 1.0F);
      Per<float, W> sums[2];
      add_past(w, slopes, measure, derivative, -INFINITY, bent.slope, sums);
      PE_UNROLL
      for (int i = 0; i < 2; ++i) {
        all[i] = all[i] + sums[i];
        past[i] = past[i] + W::select(w.lane() < bent.first, sums[i], Per<float, W>(0.0F));
      }
      PE_LOOP
      for (int k = bent.first; k < bent.end; ++k) {
        add_past(w, slopes, measure, derivative, bent.knots[k], bent.bends[k], sums);
        PE_UNROLL
        for (int i = 0; i < 2; ++i) past[i] = past[i] + W::select(w.lane() == k, sums[i], Per<float, W>(0.0F));
      }
    }
    /// Sums over inputs past a knot, of all lanes, and adds the bend at it to gradients of rows.
    template <int columns>
    PE_BODY void add_past(W& w, const Sums<W, strips, columns>& slopes, const ByDiagonal<W, strips, columns>& measure,
                          const ByDiagonal<W, strips, columns>& derivative, float knot, float bend,
                          Per<float, W> (&sums)[2]) {
      sums[0] = sums[1] = 0.0F;
      PE_UNROLL
      for (int strip = 0; strip < strips; ++strip) {
        PE_UNROLL
        for (int r = 0; r < 2; ++r) {
          Per<float, W> by_measure = 0.0F, by_derivative = 0.0F;
          PE_UNROLL
          for (int n = 0; n < columns / 8; ++n) {
            PE_UNROLL
            for (int i = 2 * r; i < 2 * r + 2; ++i) {
              const Per<float, W>& m = measure.at(strip, n, i);
              const Per<float, W> slope =
                  W::select(m * number[strip][r] > knot, slopes[strip][n][i], Per<float, W>(0.0F));
              sums[0] = sums[0] + slope;
              by_measure = by_measure + slope * m;
              by_derivative = by_derivative + slope * derivative.at(strip, n, i);
            }
          }
          by_number[strip][r] = by_number[strip][r] + by_measure * bend;
          by_parameter[strip][r] = by_parameter[strip][r] + by_derivative * bend;
          sums[1] = sums[1] + by_measure * number[strip][r];
        }
      }
      PE_UNROLL
      for (int i = 0; i < 2; ++i) sums[i] = sum_of_lanes(w, sums[i]);
    }
    PE_BODY void write(W& w, const PeCudaAttention& of, const PeCudaBiasGradients& to, int b, int h, int first) {
      const std::int64_t rows = head(of, b, h) * of.queries;
      PE_UNROLL
      for (int strip = 0; strip < strips; ++strip) {
        PE_UNROLL
        for (int r = 0; r < 2; ++r) {
          const Per<int, W> row = w.lane() / 4 + (first + 16 * strip + 8 * r);
          const auto writes = (row < static_cast<int>(of.queries)) & (w.lane() % 4 == 0);
          W::write(to.bent.numbers + rows, Per<std::int64_t, W>(row), sum_of_row(w, by_number[strip][r]), writes);
          W::write(to.bent.parameter + rows, Per<std::int64_t, W>(row),
                   sum_of_row(w, by_parameter[strip][r]) * number[strip][r], writes);
        }
      }
      float* sums = to.bent.sums + (head(of, b, h) * tiles(of.queries) * kWarps + first / 16) * 2 * (kKnots + 1);
      PE_UNROLL
      for (int i = 0; i < 2; ++i) {
        W::write(sums + i * (kKnots + 1), Per<std::int64_t, W>(w.lane()), past[i], w.lane() < kKnots);
        W::write(sums + i * (kKnots + 1) + kKnots, Per<std::int64_t, W>(w.lane()), all[i], w.lane() == 0);
      }
    }
  };

  template <typename W>
  struct OfKeys {
    Bent<W> bent;

    PE_BODY void begin(W& w, const PeCudaAttention& of, int, int h, int) { bent.begin(w, of, h); }
    PE_BODY static void fetch(W& w, const PeCudaAttention& of, int b, int h, int row, int key, int to) {
      const int first = row + static_cast<int>(of.keys - of.queries) - key - (kTile - 1);
      fetch_floats<kThreads>(w, to, of.bent.measure + h * of.keys, first, static_cast<int>(of.keys));
      fetch_floats<kThreads>(w, to + 4 * kThreads, of.bent.numbers + head(of, b, h) * of.queries, row,
                             static_cast<int>(of.queries));
    }
    template <int columns>
    PE_BODY void add(W& w, Sums<W, 1, columns>& scores, const TilePlace& at, float scale) {
      ByDiagonal<W, 1, columns> measure;
      measure.template load<-1>(w, at, at.mod, 1.0F);
      Per<float, W> numbers[columns / 8][2];
      PE_UNROLL
      for (int n = 0; n < columns / 8; ++n)
        w.load_two(numbers[n], w.lane() % 4 * 8 + (at.mod + 4 * (kThreads + at.column + 8 * n)));
      bent.template add<1, columns>(
          w, scores, scale, [&](int strip, int n, int i) { return measure.at(strip, n, i) * numbers[n][i % 2]; });
    }
  };
};

}  // namespace pe::cuda
