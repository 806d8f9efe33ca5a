/// @file
/// Gradients of attention by a bias of pairs.
#pragma once

#include "cuda/attention/mods/pair_bias.h"
#include "cuda/attention/query_gradients.h"

namespace pe::cuda {

/// A block for each tile of a bias, which sums the slopes over all sequences and heads that share it, in order.
template <int width>
struct AttentionPairGradients {
  static constexpr int kAtOnce = 2;
  static constexpr int kRows = kTile * pitch(width);  ///< of a matrix: queries, dout, keys, values
  static constexpr int kShared = 4 * kRows;

  PeCudaAttention of;
  const void *q, *k, *v, *dout;
  const float *lse, *delta;
  float* to;

  PE_SIZE bool has_sequences() const { return of.pairs.by_sequence != 0; }
  PE_SIZE bool has_heads() const { return of.pairs.by_head != 0; }
  std::int64_t blocks() const {
    return (has_sequences() ? of.batch : 1) * (has_heads() ? of.heads : 1) * tiles(of.queries) * tiles(of.keys);
  }

  template <typename W>
  PE_BODY void operator()(W& w, std::int64_t block) const {
    const int columns = tiles(of.keys), rows = tiles(of.queries), heads = static_cast<int>(of.heads);
    const int key = static_cast<int>(block % columns) * kTile, first = static_cast<int>(block / columns % rows) * kTile;
    const int of_bias = static_cast<int>(block / columns / rows), own = w.warp() * 16;
    const int bias_heads = has_heads() ? heads : 1;
    const int bias_b = of_bias / bias_heads, bias_h = of_bias % bias_heads;
    const int b_end = has_sequences() ? bias_b + 1 : static_cast<int>(of.batch);
    const int h_end = has_heads() ? bias_h + 1 : heads;
    Sums<W, 1, kTile> sums;
    clear<W, 1, kTile>(sums);
    QueryRows<W, width, PairBias> held;
    held.mod.begin(w, of, bias_b, bias_h, first + own);
    for (int b = bias_b; b < b_end; ++b) {
      const int last = smaller(first + kTile, of.queries) - 1;
      if (key > last + of.keys - of.queries || key + kTile <= first_seen(of, b, first)) continue;
      for (int h = bias_h; h < h_end; ++h) {
        w.sync();  // all have left the memory that the copies overwrite
        fetch(w, b, h, first, key);
        held.begin(w, of, b, h, first + own, lse, delta);
        w.template wait<0>();
        w.sync();
        held.queries.begin(w, own * pitch(width));
        held.douts.begin(w, kRows + own * pitch(width));
        Sums<W, 1, kTile> slopes;
        held.template find_slopes<kTile>(w, slopes, {own, 0, key, 0}, 2 * kRows, 3 * kRows, true, of.scale * kLog2E);
        each_score<1, kTile>([&](int, int n, int i) { sums[0][n][i] = sums[0][n][i] + slopes[0][n][i]; });
      }
    }
    float* pairs = to + (bias_b * of.pairs.by_sequence + bias_h * of.pairs.by_head);
    held.mod.template each_pair<kTile>(w, {own, 0, key, 0},
                                       [&](int, int n, int i, const Per<std::int64_t, W>& place, const auto& there) {
                                         W::write(pairs, place, sums[0][n][i], there);
                                       });
  }

 private:
  template <typename W>
  PE_BODY void fetch(W& w, int b, int h, int first, int key) const {
    const int group = h / static_cast<int>(of.heads / of.groups);
    const int present = static_cast<int>(of.queries) - first, present_keys = static_cast<int>(of.keys) - key;
    fetch_rows<width, kTile>(w, 0, row_at(head_at(q, of.q, b, h), of.q, first), of.q.by_row, present);
    fetch_rows<width, kTile>(w, kRows, row_at(head_at(dout, of.dout, b, h), of.dout, first), of.dout.by_row, present);
    fetch_rows<width, kTile>(w, 2 * kRows, row_at(head_at(k, of.k, b, group), of.k, key), of.k.by_row, present_keys);
    fetch_rows<width, kTile>(w, 3 * kRows, row_at(head_at(v, of.v, b, group), of.v, key), of.v.by_row, present_keys);
    w.commit();
  }
};

}  // namespace pe::cuda
