/// @file
/// Gradients of attention by keys and values.
#pragma once

#include "cuda/attention/tiles.h"

namespace pe::cuda {

/// Gradients by keys and values: a block for each tile of keys, which meets all queries of its group's heads in order.
/// Scores are transposed, 16 keys per warp, so they are left operands. There are `part` queries at a time.
template <int width, int part, typename Mod>
struct AttentionKeyGradients {
  static constexpr int kAtOnce = width < 64 ? 3 : 2;
  static constexpr int kValues = kTile * pitch(width), kStages = 2 * kValues;
  static constexpr int kLse = 2 * kValues, kDelta = kLse + 4 * kThreads, kMod = kDelta + 4 * kThreads;  ///< of a stage
  static constexpr int kStage = kMod + 4 * Mod::floats(1);
  static constexpr int kShared = kStages + 2 * kStage;

  PeCudaAttention of;
  const void *q, *k, *v, *dout;
  const float *lse, *delta;
  void *dk, *dv;
  PeCudaBiasGradients dbias;

  std::int64_t blocks() const { return of.batch * of.groups * tiles(of.keys); }

  template <typename W>
  PE_BODY void operator()(W& w, std::int64_t block) const {
    const int count = tiles(of.keys), key = static_cast<int>(block % count) * kTile,
              pair = static_cast<int>(block / count);
    const int groups = static_cast<int>(of.groups), group = pair % groups, b = pair / groups;
    const int sharing = static_cast<int>(of.heads / of.groups), shift = static_cast<int>(of.keys - of.queries);
    const int first_tile = larger(key - shift, 0) / kTile, end = tiles(of.queries);
    int seen = 1;  // tiles of queries
    while (first_tile + seen < end && first_seen(of, b, (first_tile + seen) * kTile) < key + kTile) ++seen;
    const int steps = seen * sharing;

    const auto fetch = [&](int step) {
      const int stage = kStages + step % 2 * kStage, h = group * sharing + step / seen,
                row = (first_tile + step % seen) * kTile;
      const int present = static_cast<int>(of.queries) - row;
      fetch_rows<width, kTile>(w, stage, row_at(head_at(q, of.q, b, h), of.q, row), of.q.by_row, present);
      fetch_rows<width, kTile>(w, stage + kValues, row_at(head_at(dout, of.dout, b, h), of.dout, row), of.dout.by_row,
                               present);
      const std::int64_t head = (b * of.heads + h) * of.queries;
      fetch_floats<kThreads>(w, stage + kLse, lse + head, row, static_cast<int>(of.queries));
      fetch_floats<kThreads>(w, stage + kDelta, delta + head, row, static_cast<int>(of.queries));
      Mod::template OfKeys<W>::fetch(w, of, b, h, row, key, stage + kMod);
      w.commit();
    };
    const int present_keys = static_cast<int>(of.keys) - key;
    fetch_rows<width, kTile>(w, 0, row_at(head_at(k, of.k, b, group), of.k, key), of.k.by_row, present_keys);
    fetch_rows<width, kTile>(w, kValues, row_at(head_at(v, of.v, b, group), of.v, key), of.v.by_row, present_keys);
    fetch(0);

    const int own = w.warp() * 16;
    Registers<W> held;
    clear<W, 1, width>(held.by_key);
    clear<W, 1, width>(held.by_value);
    w.template wait<0>();
    w.sync();
    held.keys.begin(w, own * pitch(width));
    held.values.begin(w, kValues + own * pitch(width));

    for (int step = 0; step < steps; ++step) {
      if (step > 0) {
        w.template wait<0>();
        w.sync();
      }
      if (step + 1 < steps) fetch(step + 1);
      if constexpr (Mod::kAdds || Mod::kScans) {
        if (step % seen == 0) held.mod.begin(w, of, b, group * sharing + step / seen, key + own);
      }
      const int stage = kStages + step % 2 * kStage, tile = (first_tile + step % seen) * kTile;
      const int last = smaller(tile + kTile, of.queries) - 1;
      const bool hides =
          tile + shift - of.stick.hidden < key + own + 15 || last < tile + kTile - 1 || first_seen(of, b, last) > key;
      PE_UNROLL
      for (int column = 0; column < kTile; column += part) {
        const int row = tile + column;
        if (row + part - 1 + shift < key + own) continue;  // before all of the warp's keys
        add(w, held, stage, {own, column, tile, stage + kMod}, [&](Sums<W, 1, part>& scores) {
          if (hides) hide(w, scores, b, key + own, row, shift);
        });
      }
      if constexpr (Mod::kSumsByKey) {
        if (step % seen == seen - 1) held.mod.write(w, of, dbias, b, group * sharing + step / seen, key + own);
      }
    }
    const Per<float, W> scales[1][2] = {{of.scale, of.scale}}, ones[1][2] = {{1.0F, 1.0F}};
    write_rows<width, 1>(w, held.by_key, scales, head_at(dk, of.dk, b, group), of.dk.by_row, key + own,
                         static_cast<int>(of.keys));
    write_rows<width, 1>(w, held.by_value, ones, head_at(dv, of.dv, b, group), of.dv.by_row, key + own,
                         static_cast<int>(of.keys));
  }

 private:
  template <typename W>
  struct Registers {
    Sums<W, 1, width> by_key, by_value;
    LeftRows<W, width, 1, width <= 64> keys, values;
    typename Mod::template OfKeys<W> mod;
  };

  /// Adds the terms of queries of a tile. @param hide  of their logits
  template <typename W, typename Hide>
  PE_BODY void add(W& w, Registers<W>& held, int stage, const TilePlace& at, const Hide& hide) const {
    const float scale = of.scale * kLog2E;
    Sums<W, 1, part> scores;
    clear<W, 1, part>(scores);
    multiply_rows<width, 1, part>(w, scores, held.keys, stage + at.column * pitch(width));
    if constexpr (Mod::kAdds) held.mod.template add<part>(w, scores, at, scale);
    hide(scores);
    const Per<int, W> columns = w.lane() % 4 * 8 + (stage + 4 * at.column);
    Sums<W, 1, part> gains, by_count;  // of a row that is scanned
    if constexpr (Mod::kScans && Mod::kSoftmax) held.mod.template add<part>(w, scores, gains, by_count, at, scale);
    if constexpr (Mod::kSoftmax)
      weigh<W>(w, scores, columns, Mod::kAdds || Mod::kScans ? 1.0F : scale);
    else
      held.mod.template weigh<part>(w, scores, gains, at, scale);
    multiply_columns<width, 1, part>(w, held.by_value, scores, stage + kValues + at.column * pitch(width));
    Sums<W, 1, part> wanted;
    clear<W, 1, part>(wanted);
    multiply_rows<width, 1, part>(w, wanted, held.values, stage + kValues + at.column * pitch(width));
    if constexpr (Mod::kSoftmax)
      find_slopes<W>(w, scores, wanted, columns);
    else
      held.mod.template find_slopes<part>(w, scores, wanted, gains, at);
    if constexpr (Mod::kScans && Mod::kSoftmax) held.mod.template scan_back<part>(w, scores, gains, by_count, at);
    if constexpr (Mod::kSumsByKey && !Mod::kScans) held.mod.template take<part>(w, scores, at);
    multiply_columns<width, 1, part>(w, held.by_key, scores, stage + at.column * pitch(width));
  }

  template <typename W>
  PE_BODY static void weigh(W& w, Sums<W, 1, part>& scores, const Per<int, W>& columns, float factor) {
    PE_UNROLL
    for (int n = 0; n < part / 8; ++n) {
      Per<float, W> of_row[2];
      w.load_two(of_row, columns + (kLse + 32 * n));
      PE_UNROLL
      for (int i = 0; i < 4; ++i) scores[0][n][i] = W::exp2(scores[0][n][i] * factor - of_row[i % 2] * kLog2E);
    }
  }
  template <typename W>
  PE_BODY static void find_slopes(W& w, Sums<W, 1, part>& scores, const Sums<W, 1, part>& wanted,
                                  const Per<int, W>& columns) {
    PE_UNROLL
    for (int n = 0; n < part / 8; ++n) {
      Per<float, W> of_row[2];
      w.load_two(of_row, columns + (kDelta + 32 * n));
      PE_UNROLL
      for (int i = 0; i < 4; ++i) scores[0][n][i] = scores[0][n][i] * (wanted[0][n][i] - of_row[i % 2]);
    }
  }

  template <typename W>
  PE_BODY void hide(W& w, Sums<W, 1, part>& logits, int b, int key, int row, int shift) const {
    const Per<int, W> first_key = w.lane() / 4 + key, first_row = w.lane() % 4 * 2 + row;
    PE_UNROLL
    for (int n = 0; n < part / 8; ++n) {
      PE_UNROLL
      for (int e = 0; e < 2; ++e) {
        const Per<int, W> query = first_row + (8 * n + e);
        const auto there = query < static_cast<int>(of.queries);
        Per<int, W> start = 0;
        if (of.starts != nullptr) {
          start =
              Per<int, W>(W::read(of.starts + b * of.starts_by_sequence + shift, Per<std::int64_t, W>(query), there));
        }
        PE_UNROLL
        for (int r = 0; r < 2; ++r) {
          const Per<int, W> at = first_key + 8 * r;
          auto& logit = logits[0][n][2 * r + e];
          logit = W::select(there & (at <= query + (shift - of.stick.hidden)) & (at >= start), logit,
                            Per<float, W>(-INFINITY));
        }
      }
    }
  }
};

}  // namespace pe::cuda
