/// @file
/// Stick-breaking in place of softmax: from the nearest key to the farthest, each takes its share of the rest.
#pragma once

#include "cuda/attention/scan.h"

namespace pe::cuda {

/// Logits z are times log2(e), and l = log2(1 + 2^z). A key takes the share σ(z) of its row's rest, whose logarithm
/// falls by l. With C the sum of l over the key and all nearer ones, its weight is 2^(z − C). Let g be the weight times
/// the gradient by it, and G the sum of g over the key and all farther ones. Then the slope of a logit is g − σ(z) · (G
/// − gradient by lse).
struct Stick {
  static constexpr bool kAdds = false, kScans = true, kSoftmax = false, kSumsByQuery = false, kSumsByKey = false;
  PE_SIZE static int floats(int) { return kScanFloats; }

  /// Sums are of l over nearer keys; in gradients of g over farther ones.
  template <typename W, int strips>
  struct OfQueries : ScanOfQueries<W, strips> {
    using Scan = ScanOfQueries<W, strips>;
    using Scan::sums, Scan::nearer, Scan::farther, Scan::write_border, Scan::border, Scan::has, Scan::row;

    PE_BODY static void fetch(W&, const PeCudaAttention&, int, int, int, int, int) {}
    /// Makes weights of a tile's scores. Tiles come in descending order.
    PE_BODY void weigh(W& w, Sums<W, strips, kTile>& scores, float scale, int key) {
      PE_UNROLL
      for (int strip = 0; strip < strips; ++strip) {
        PE_UNROLL
        for (int n = kTile / 8 - 1; n >= 0; --n) {
          PE_UNROLL
          for (int r = 0; r < 2; ++r) {
            if (n % 2 == 1 && nearer != nullptr) write_border(w, nearer, strip, r, key / kScanBlock + n / 2);
            Per<float, W>&far = scores[strip][n][2 * r], &near = scores[strip][n][2 * r + 1];
            take_two(w, sums[strip][r], far, near, scale);
          }
        }
      }
    }
    /// Makes weights of two scores that follow each other. The sum grows by l of all the row's lanes.
    PE_BODY static void take_two(W& w, Per<float, W>& sum, Per<float, W>& far, Per<float, W>& near, float scale) {
      far = far * scale;
      near = near * scale;
      const Per<float, W> far_rest = log2_of_one_plus_exp2<W>(far), near_rest = log2_of_one_plus_exp2<W>(near);
      Per<float, W> all = far_rest + near_rest;
      const Per<float, W> to_near = sum + sum_of_others<1, 4, true>(w, all) + near_rest;
      far = W::exp2(far - (to_near + far_rest));
      near = W::exp2(near - to_near);
      sum = sum + all;
    }
    PE_BODY void end(W& w, float* lse, Per<float, W> (&factor)[strips][2]) const {
      PE_UNROLL
      for (int strip = 0; strip < strips; ++strip) {
        PE_UNROLL
        for (int r = 0; r < 2; ++r) {
          W::write(lse, row[r] + 16 * strip, sums[strip][r] * kLn2, has(strip, r, 0) & (w.lane() % 4 == 0));
          factor[strip][r] = 1.0F;
        }
      }
    }
    /// Makes slopes of scores, from the gradients by weights. Tiles come in ascending order.
    template <int columns>
    PE_BODY void find_slopes(W& w, Sums<W, strips, columns>& scores, const Sums<W, strips, columns>& wanted, int key,
                             float scale) {
      PE_UNROLL
      for (int n = 0; n < columns / 8; n += 2) {
        PE_UNROLL
        for (int r = 0; r < 2; ++r) {
          const int block = key / kScanBlock + n / 2;
          Per<float, W> nearer_sum = Scan::sum_of_nearer(r, block), share[4];
          PE_UNROLL
          for (int i = 3; i >= 0; --i) {
            const Per<float, W> z = scores[0][n + i / 2][2 * r + i % 2] * scale;
            share[i] = W::exp2(z - log2_of_one_plus_exp2<W>(z));
          }
          PE_UNROLL
          for (int m = 1; m >= 0; --m)
            take_two(w, nearer_sum, scores[0][n + m][2 * r], scores[0][n + m][2 * r + 1], scale);
          write_border(w, farther, 0, r, block);
          PE_UNROLL
          for (int m = 0; m < 2; ++m) {
            Per<float, W>&far = scores[0][n + m][2 * r], &near = scores[0][n + m][2 * r + 1];
            far = far * wanted[0][n + m][2 * r];
            near = near * wanted[0][n + m][2 * r + 1];
            Per<float, W> all = far + near;
            const Per<float, W> to_far = sums[0][r] + sum_of_others<1, 4, false>(w, all) + far;
            const Per<float, W> to_near = to_far + near;
            far = far - share[2 * m] * to_far;
            near = near - share[2 * m + 1] * to_near;
            sums[0][r] = sums[0][r] + all;
          }
        }
      }
    }
  };

  template <typename W>
  struct OfKeys : ScanOfKeys<W> {
    PE_BODY void begin(W&, const PeCudaAttention&, int, int, int) {}
    /// Makes weights of scores. @param shares  σ(z), written
    template <int columns>
    PE_BODY void weigh(W& w, Sums<W, 1, columns>& scores, Sums<W, 1, columns>& shares, const TilePlace& at,
                       float scale) const {
      PE_UNROLL
      for (int n = 0; n < columns / 8; ++n) {
        Per<float, W> rest[4], nearer[4];
        PE_UNROLL
        for (int i = 0; i < 4; ++i) rest[i] = log2_of_one_plus_exp2<W>(scores[0][n][i] * scale);
        ScanOfKeys<W>::template sum_before<0>(w, nearer, at, n, rest);
        PE_UNROLL
        for (int i = 0; i < 4; ++i) {
          const Per<float, W> z = scores[0][n][i] * scale;
          shares[0][n][i] = W::exp2(z - rest[i]);
          scores[0][n][i] = W::exp2(z - (nearer[i] + rest[i]));
        }
      }
    }
    /// Makes slopes of weights.
    template <int columns>
    PE_BODY void find_slopes(W& w, Sums<W, 1, columns>& weights, const Sums<W, 1, columns>& wanted,
                             const Sums<W, 1, columns>& shares, const TilePlace& at) const {
      PE_UNROLL
      for (int n = 0; n < columns / 8; ++n) {
        Per<float, W> g[4], farther[4];
        PE_UNROLL
        for (int i = 0; i < 4; ++i) g[i] = weights[0][n][i] * wanted[0][n][i];
        ScanOfKeys<W>::template sum_before<1>(w, farther, at, n, g);
        PE_UNROLL
        for (int i = 0; i < 4; ++i) weights[0][n][i] = g[i] - shares[0][n][i] * (farther[i] + g[i]);
      }
    }
  };
};

}  // namespace pe::cuda
