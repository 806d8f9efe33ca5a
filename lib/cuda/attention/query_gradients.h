/// @file
/// Gradients of attention by queries, and by a table of distances.
#pragma once

#include "cuda/attention/tiles.h"

namespace pe::cuda {

/// A lane's rows of queries, and the slopes of their logits.
template <typename W, int width, typename Mod>
struct QueryRows {
  LeftRows<W, width, 1, width <= 64> queries, douts;
  Per<float, W> lse[2], delta[2];  ///< lse times log2(e)
  QueryMask<W, 1> mask;
  typename Mod::template OfQueries<W, 1> mod;

  PE_BODY void begin(W& w, const PeCudaAttention& of, int b, int h, int first, const float* lse_of,
                     const float* delta_of) {
    mask.begin(w, of, b, first, true);
    mod.begin(w, of, b, h, first);
    PE_UNROLL
    for (int r = 0; r < 2; ++r) {
      const Per<int, W> row = w.lane() / 4 + (first + 8 * r);
      const Per<std::int64_t, W> at = row + (b * of.heads + h) * of.queries;
      const auto there = row < static_cast<int>(of.queries);
      lse[r] = W::read(lse_of, at, there) * kLog2E;
      delta[r] = W::read(delta_of, at, there);
      if constexpr (!Mod::kSoftmax) mod.sums[0][r] = delta[r];
    }
  }
  /// @param keys, values  the tile's first ones in shared memory. @param hides some of the keys. @param scale  of
  /// scores, with log2(e). @param by_counts  gradients by logits of counts, added to
  template <int part>
  PE_BODY void find_slopes(W& w, Sums<W, 1, part>& slopes, const TilePlace& at, int keys, int values, bool hides,
                           float scale, float* by_counts = nullptr) {
    clear<W, 1, part>(slopes);
    multiply_rows<width, 1, part>(w, slopes, queries, keys + at.column * pitch(width));
    if constexpr (Mod::kAdds) mod.template add<part>(w, slopes, at, scale);
    if (hides) mask.template hide<part>(w, slopes, at.first + at.column);
    const float factor = Mod::kAdds ? 1.0F : scale;
    Sums<W, 1, part> wanted;
    clear<W, 1, part>(wanted);
    multiply_rows<width, 1, part>(w, wanted, douts, values + at.column * pitch(width));
    if constexpr (!Mod::kSoftmax)
      mod.template find_slopes<part>(w, slopes, wanted, at.first + at.column, scale);
    else if constexpr (Mod::kScans)
      mod.template find_slopes<part>(w, slopes, wanted, at, scale, lse, delta, by_counts);
    else
      each_score<1, part>([&](int strip, int n, int i) {
        slopes[strip][n][i] = W::exp2(slopes[strip][n][i] * factor - lse[i / 2]) * (wanted[strip][n][i] - delta[i / 2]);
      });
  }
};

/// Gradients by queries: a block for each tile of queries, as forward. With `summed` also a row of partial sums of the
/// gradient by the table: the terms of the tile's queries at each distance up to `reach`.
template <int width, int part, typename Mod, bool summed>
struct AttentionQueryGradients {
  static constexpr int kAtOnce = width <= 64 ? 3 : 2;
  static constexpr int kValues = kTile * pitch(width), kStages = 2 * kValues;
  static constexpr int kMod = 2 * kValues, kStage = kMod + 4 * Mod::floats(1);
  static constexpr int kSums = kStages + 2 * kStage;
  /// A lane's sums over its scores' diagonals; 8 more floats a diagonal put a warp's reads into 32 banks.
  static constexpr int kDiagonals = kTile / 8 + 1, kDiagonal = 4 * (2 * kWarpLanes + 8),
                       kWarpSums = kDiagonals * kDiagonal - 32;
  static constexpr int kShared = kSums + (summed ? kWarps * kWarpSums : 0);

  PeCudaAttention of;
  const void *q, *k, *v, *dout;
  const float *lse, *delta;
  void* dq;
  float* partials;                ///< [count, S]
  std::int64_t first_row, count;  ///< of [H, B, tiles]: which blocks run
  PeCudaBiasGradients dbias;

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
    QueryRows<W, width, Mod> rows;
    rows.begin(w, of, b, h, first + own, lse, delta);
    Sums<W, 1, width> sums;
    clear<W, 1, width>(sums);
    Per<float, W> carried = 0.0F;
    w.template wait<0>();
    w.sync();
    rows.queries.begin(w, own * pitch(width));
    rows.douts.begin(w, kValues + own * pitch(width));

    for (int at = first_tile; at <= last_tile; ++at) {
      if (at > first_tile) {
        w.template wait<0>();
        w.sync();
      }
      if (at < last_tile) fetch(at + 1);
      const int stage = kStages + at % 2 * kStage, key = at * kTile;
      const bool hides = key + kTile - 1 > first + own + shift - of.stick.hidden || key < last_start || present < kTile;
      Diagonals<W> diagonals;
      if constexpr (summed) {
        PE_UNROLL
        for (int i = 0; i < kDiagonals; ++i) diagonals[i][0] = diagonals[i][1] = 0.0F;
      }
      PE_UNROLL
      for (int column = 0; column < kTile; column += part) {
        if (!Mod::kScans && key + column > first + own + 15 + shift) continue;
        const TilePlace place{own, column, key, stage + kMod};
        Sums<W, 1, part> slopes;
        rows.template find_slopes<part>(w, slopes, place, stage, stage + kValues, hides, of.scale * kLog2E,
                                        dbias.counts);
        if constexpr (summed) sum_diagonals<W>(diagonals, slopes, column);
        if constexpr (Mod::kSumsByQuery && !Mod::kScans) rows.mod.template take<part>(w, slopes, place);
        multiply_columns<width, 1, part>(w, sums, slopes, stage + column * pitch(width));
      }
      if constexpr (summed) {
        add_diagonals(w, diagonals, carried, block, first + shift - key - (kTile - 1), at - first_tile,
                      at == last_tile);
      }
    }
    if constexpr (summed)
      clear_distances(w, block, first + shift - first_tile * kTile + kTile + 1, first + shift + kTile);
    if constexpr (Mod::kSumsByQuery) rows.mod.write(w, of, dbias, b, h, first + own);
    const Per<float, W> scales[1][2] = {{of.scale, of.scale}};
    write_rows<width, 1>(w, sums, scales, head_at(dq, of.dq, b, h), of.dq.by_row, first + own,
                         static_cast<int>(of.queries));
  }

 private:
  template <typename W>
  using Diagonals = Per<float, W>[kDiagonals][2];

  template <typename W>
  PE_BODY static void sum_diagonals(Diagonals<W>& diagonals, const Sums<W, 1, part>& slopes, int column) {
    each_score<1, part>([&](int, int n, int i) {
      auto& diagonal = diagonals[i / 2 - n - column / 8 + kTile / 8 - 1][i % 2];
      diagonal = diagonal + slopes[0][n][i];
    });
  }

  /// Distances to tiles before all documents of the rows.
  template <typename W>
  PE_BODY void clear_distances(W& w, std::int64_t block, int from, int end) const {
    const int reach = smaller(end, of.keys);
    for (; from < reach; from += kThreads) {
      const Per<int, W> distance = w.thread() + from;
      W::write(partials + block * of.keys, Per<std::int64_t, W>(distance), Per<float, W>(0.0F), distance < reach);
    }
  }

  /// From a lane's diagonals to the tile's: 128 distances from `base` on, of which the last is not its own. The lower
  /// half is the upper half of the next tile, so lanes keep it. At each tile the halves of the block change places.
  ///
  template <typename W>
  PE_BODY void add_diagonals(W& w, const Diagonals<W>& diagonals, Per<float, W>& carried, std::int64_t block, int base,
                             int turn, bool is_last) const {
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
        // Unsigned: a diagonal before the strip's first one is past its last one.
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

/// gradient[h, distance] += partial sums of the head's rows, from `first_row` on. Each warp of a block adds every
/// fourth row for 32 distances, and reads several rows before it adds them.
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

}  // namespace pe::cuda
