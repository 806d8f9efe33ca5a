/// @file
/// A bias of pairs of a query and a key, from memory.
#pragma once

#include "cuda/attention/tiles.h"

namespace pe::cuda {

/// AttentionPairGradients computes its gradient.
struct PairBias {
  static constexpr bool kAdds = true, kScans = false, kSoftmax = true, kSumsByQuery = false, kSumsByKey = false;
  PE_SIZE static int floats(int) { return 0; }

  template <typename W, int strips, bool rows_are_queries>
  struct OfRows {
    const float* pairs;
    int first, queries, keys;

    PE_BODY void begin(W&, const PeCudaAttention& of, int b, int h, int first_row) {
      pairs = of.pairs.bias + b * of.pairs.by_sequence + h * of.pairs.by_head;
      first = first_row;
      queries = static_cast<int>(of.queries);
      keys = static_cast<int>(of.keys);
    }
    PE_BODY static void fetch(W&, const PeCudaAttention&, int, int, int, int, int) {}
    template <int columns>
    PE_BODY void add(W& w, Sums<W, strips, columns>& scores, const TilePlace& at, float scale) const {
      each_pair<columns>(w, at, [&](int strip, int n, int i, const Per<std::int64_t, W>& place, const auto& there) {
        scores[strip][n][i] = scores[strip][n][i] * scale + W::read(pairs, place, there) * kLog2E;
      });
    }
    /// Calls with(strip, n, i, place, there) for each score: its place in a head's pairs, and whether it is one.
    template <int columns, typename With>
    PE_BODY void each_pair(W& w, const TilePlace& at, const With& with) const {
      each_score<strips, columns>([&](int strip, int n, int i) {
        const Per<int, W> row = w.lane() / 4 + (first + 16 * strip + i / 2 * 8);
        const Per<int, W> column = w.lane() % 4 * 2 + (at.first + at.column + 8 * n + i % 2);
        const Per<int, W>&query = rows_are_queries ? row : column, &key = rows_are_queries ? column : row;
        with(strip, n, i, Per<std::int64_t, W>(query) * static_cast<std::int64_t>(keys) + Per<std::int64_t, W>(key),
             (query < queries) & (key < keys));
      });
    }
  };

  template <typename W, int strips>
  using OfQueries = OfRows<W, strips, true>;
  template <typename W>
  using OfKeys = OfRows<W, 1, false>;
};

}  // namespace pe::cuda
