/// @file
/// The bias by distance, from a table.
#pragma once

#include "cuda/attention/tiles.h"

namespace pe::cuda {

/// A bias by distance, from a table. The gradient by the table is AttentionQueryGradients' own.
struct ByDistance {
  static constexpr bool kAdds = true, kScans = false, kSoftmax = true, kSumsByQuery = false, kSumsByKey = false;
  PE_SIZE static int floats(int strips) { return strips * kThreads; }

  template <typename W, int strips>
  struct OfQueries {
    PE_BODY void begin(W&, const PeCudaAttention&, int, int, int) {}
    /// @param place key row of the tile's first query
    PE_BODY static void fetch(W& w, const PeCudaAttention& of, int, int h, int place, int key, int to) {
      fetch_floats<floats(strips)>(w, to, of.table + h * of.keys, place - key - (kTile - 1), static_cast<int>(of.keys));
    }
    template <int columns>
    PE_BODY void add(W& w, Sums<W, strips, columns>& scores, const TilePlace& at, float scale) const {
      add_table<1, strips, columns>(w, scores, at, scale);
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
    PE_BODY void add(W& w, Sums<W, 1, columns>& scores, const TilePlace& at, float scale) const {
      add_table<-1, 1, columns>(w, scores, at, scale);
    }
  };

 private:
  template <int sign, int strips, int columns, typename W>
  PE_BODY static void add_table(W& w, Sums<W, strips, columns>& scores, const TilePlace& at, float scale) {
    ByDiagonal<W, strips, columns> bias;
    bias.template load<sign>(w, at, at.mod, kLog2E);
    each_score<strips, columns>(
        [&](int strip, int n, int i) { scores[strip][n][i] = scores[strip][n][i] * scale + bias.at(strip, n, i); });
  }
};

}  // namespace pe::cuda
