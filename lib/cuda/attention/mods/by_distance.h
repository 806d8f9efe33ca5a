/// @file
/// The bias by distance, from a table.
#pragma once

#include "cuda/attention/tiles.h"

namespace pe::cuda {

/// A bias by distance, from a table. The gradient by the table is AttentionQueryGradients' own.
struct ByDistance {
  static constexpr bool kAdds = true, kSumsByQuery = false, kSumsByKey = false;
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

}  // namespace pe::cuda
