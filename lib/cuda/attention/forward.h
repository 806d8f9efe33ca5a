/// @file
/// The forward pass of attention.
#pragma once

#include "cuda/attention/tiles.h"

namespace pe::cuda {

/// Rows of a softmax that sees a tile of logits at a time.
template <typename W, int strips, int width>
struct RunningSoftmax {
  Per<float, W> top[strips][2], total[strips][2];  ///< totals of this lane's columns
  Sums<W, strips, width> sums;                     ///< of values

  PE_BODY void begin() {
    clear<W, strips, width>(sums);
    PE_UNROLL
    for (int strip = 0; strip < strips; ++strip) {
      PE_UNROLL
      for (int r = 0; r < 2; ++r) {
        top[strip][r] = -INFINITY;
        total[strip][r] = 0.0F;
      }
    }
  }
  /// Makes weights of logits, which are scores times `factor`.
  PE_BODY void weigh(W& w, Sums<W, strips, kTile>& scores, float factor) {
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
  }
  /// Writes the rows' logsumexp and leaves in `total` the factor of the sums.
  PE_BODY void end(W& w, float* lse, int first, int present) {
    PE_UNROLL
    for (int strip = 0; strip < strips; ++strip) {
      PE_UNROLL
      for (int r = 0; r < 2; ++r) {
        Per<float, W> all = total[strip][r];
        all = all + w.shuffle_xor(all, 1);
        all = all + w.shuffle_xor(all, 2);
        const Per<int, W> row = w.lane() / 4 + (first + 16 * strip + 8 * r);
        W::write(lse, Per<std::int64_t, W>(row), (top[strip][r] + W::log2(all)) * kLn2,
                 (row < present) & (w.lane() % 4 == 0));
        total[strip][r] = 1.0F / all;
      }
    }
  }
};

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

    const auto tile_of = [&](int step) { return Mod::kScans ? last_tile - step : first_tile + step; };
    const auto fetch = [&](int step) {
      const int stage = kKeys + step % 2 * kStage, key = tile_of(step) * kTile,
                present = static_cast<int>(of.keys) - key;
      fetch_rows<width, kTile>(w, stage, row_at(keys, of.k, key), of.k.by_row, present);
      fetch_rows<width, kTile>(w, stage + kValues, row_at(values, of.v, key), of.v.by_row, present);
      Mod::template OfQueries<W, strips>::fetch(w, of, b, h, first + shift, key, stage + kMod);
      w.commit();
    };
    fetch_rows<width, kRows>(w, 0, row_at(queries, of.q, first), of.q.by_row, static_cast<int>(of.queries) - first);
    fetch(0);

    const int own = w.warp() * 16 * strips;  // first row in the tile
    QueryMask<W, strips> mask;
    mask.begin(w, of, b, first + own, false);
    typename Mod::template OfQueries<W, strips> mod;
    mod.begin(w, of, b, h, first + own);
    const float scale = of.scale * kLog2E;
    RunningSoftmax<W, strips, width> softmax;
    softmax.begin();
    w.template wait<0>();
    w.sync();
    LeftRows<W, width, strips, true> left;
    left.begin(w, own * pitch(width));

    for (int step = 0; step <= last_tile - first_tile; ++step) {
      if (step > 0) {
        w.template wait<0>();
        w.sync();
      }
      if (step < last_tile - first_tile) fetch(step + 1);  // over the tile before this one, which all have left
      const int stage = kKeys + step % 2 * kStage, key = tile_of(step) * kTile;
      if (!Mod::kScans && key > first + own + 16 * strips - 1 + shift) continue;

      Sums<W, strips, kTile> scores;
      clear<W, strips, kTile>(scores);
      multiply_rows<width, strips, kTile>(w, scores, left, stage);
      const TilePlace place{own, 0, key, stage + kMod};
      if constexpr (Mod::kAdds) mod.template add<kTile>(w, scores, place, scale);
      if (key + kTile - 1 > first + own + shift - of.stick.hidden || key < last_start)
        mask.template hide<kTile>(w, scores, key);
      if constexpr (Mod::kScans && Mod::kSoftmax) mod.add(w, scores, scale, place);
      if constexpr (Mod::kSoftmax)
        softmax.weigh(w, scores, Mod::kAdds || Mod::kScans ? 1.0F : scale);
      else
        mod.weigh(w, scores, scale, key);
      multiply_columns<width, strips, kTile>(w, softmax.sums, scores, stage + kValues);
    }

    float* lse_of_head = lse + (static_cast<std::int64_t>(b) * heads + h) * of.queries;
    if constexpr (Mod::kSoftmax)
      softmax.end(w, lse_of_head, first + own, static_cast<int>(of.queries));
    else
      mod.end(w, lse_of_head, softmax.total);
    write_rows<width, strips>(w, softmax.sums, softmax.total, head_at(out, of.out, b, h), of.out.by_row, first + own,
                              static_cast<int>(of.queries));
  }
};

}  // namespace pe::cuda
