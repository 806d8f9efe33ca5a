/// @file
/// Scans of rows, for Mods whose terms depend on all keys between a key and the row itself.
///
/// A row is scanned twice. The forward pass meets keys from the nearest to the farthest, and writes sums over nearer
/// keys at borders of 16 keys. Gradients of queries meet them the other way, and write sums over farther keys there.
/// Gradients of keys can therefore start at any tile, and a warp of theirs has just 16 keys.
#pragma once

#include "cuda/attention/tiles.h"

namespace pe::cuda {

inline constexpr int kScanBlock = pe_cuda_scan_block, kScanBlocks = kTile / kScanBlock;
/// Floats of a tile's borders in shared memory, for both sums.
inline constexpr int kScanFloats = 2 * kScanBlocks * kTile;

template <typename W>
PE_BODY Per<float, W> log2_of_one_plus_exp2(const Per<float, W>& z) {
  const Per<float, W> high = W::larger(z, Per<float, W>(0.0F));
  return W::log2(W::exp2(z - high * 2.0F) + 1.0F) + high;
}

/// A lane's rows of queries.
template <typename W, int strips>
struct ScanOfQueries {
  float *nearer, *farther;        ///< the head's sums at borders, [blocks, T]; null: not wanted
  Per<std::int64_t, W> row[2];    ///< of the first strip
  Per<float, W> sums[strips][2];  ///< over nearer keys forward, over farther ones in gradients
  int queries, blocks;

  PE_BODY void begin(W& w, const PeCudaAttention& of, int b, int h, int first) {
    queries = static_cast<int>(of.queries);
    blocks = tiles(of.keys, kScanBlock);
    const std::int64_t in_head = static_cast<std::int64_t>(blocks) * queries;
    nearer = of.scan.nearer == nullptr ? nullptr : of.scan.nearer + (b * of.heads + h) * in_head;
    farther = of.scan.farther == nullptr ? nullptr : of.scan.farther + (b * of.heads + h) * in_head;
    PE_UNROLL
    for (int r = 0; r < 2; ++r) row[r] = Per<std::int64_t, W>(w.lane() / 4 + (first + 8 * r));
    PE_UNROLL
    for (int strip = 0; strip < strips; ++strip) sums[strip][0] = sums[strip][1] = 0.0F;
  }
  PE_BODY Per<bool, W> has(int strip, int r, int block) const {
    return (row[r] + 16 * strip < static_cast<std::int64_t>(queries)) & Per<bool, W>(block < blocks);
  }
  PE_BODY Per<std::int64_t, W> border(int strip, int r, int block) const {
    return row[r] + (static_cast<std::int64_t>(block) * queries + 16 * strip);
  }
  PE_BODY Per<float, W> sum_of_nearer(int r, int block) const {
    return W::read(nearer, border(0, r, block), has(0, r, block));
  }
  PE_BODY void write_border(W& w, float* to, int strip, int r, int block) const {
    W::write(to, border(strip, r, block), sums[strip][r], has(strip, r, block) & (w.lane() % 4 == 0));
  }
};

/// A warp's 16 rows of keys, a block.
template <typename W>
struct ScanOfKeys {
  PE_BODY static void fetch(W& w, const PeCudaAttention& of, int b, int h, int row, int key, int to) {
    const int blocks = tiles(of.keys, kScanBlock), queries = static_cast<int>(of.queries);
    const std::int64_t head = (b * of.heads + h) * blocks * of.queries;
    const Per<int, W> query = w.thread() % kTile + row;
    PE_UNROLL
    for (int i = 0; i < kScanBlocks; ++i) {  // two borders at a time
      const Per<int, W> block = w.thread() / kTile + (2 * i % kScanBlocks + key / kScanBlock);
      const Per<std::int64_t, W> at = Per<std::int64_t, W>(block) * of.queries + Per<std::int64_t, W>(query) + head;
      w.template copy<4>(w.thread() * 4 + (to + 4 * i * kThreads),
                         2 * i < kScanBlocks ? of.scan.nearer : of.scan.farther, at * 4,
                         (query < queries) & (block < blocks));
    }
  }
  /// @param sum  0: over nearer keys; 1: over farther ones
  PE_BODY static void load(W& w, Per<float, W> (&to)[2], const TilePlace& at, int n, int sum) {
    w.load_two(
        to, w.lane() % 4 * 8 + (at.mod + 4 * ((sum * kScanBlocks + at.own / kScanBlock) * kTile + at.column + 8 * n)));
  }
  /// Sums over all keys before each of a lane's four, without its own value: over nearer keys (`sum` 0) or farther
  /// ones.
  template <int sum>
  PE_BODY static void sum_before(W& w, Per<float, W> (&to)[4], const TilePlace& at, int n,
                                 const Per<float, W> (&value)[4]) {
    Per<float, W> total[2];
    load(w, total, at, n, sum);
    PE_UNROLL
    for (int step = 0; step < 4; ++step) {
      const int i = sum == 0 ? 3 - step : step;  // the nearer half of the keys is 2 and 3
      Per<float, W> all = value[i];
      to[i] = total[i % 2] + sum_of_others<4, 32, sum == 0>(w, all);
      total[i % 2] = total[i % 2] + all;
    }
  }
};

}  // namespace pe::cuda
