/// @file
/// Statistics of rows of attention weights: how far a head looks, how widely, the position of its peak, the weight of
/// its first key. Fed with ranges of query rows; nothing of the size of the weights is kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace pe::evaluation {

/// Means over queries i (counted from 0) of one head. Shares are NaN where no query has one.
struct AttentionFigures {
  double distance = 0;        ///< Σ_j A_ij (i − j), tokens.
  double distance_share = 0;  ///< The same over i, of queries with an earlier key.
  double entropy = 0;         ///< −Σ_j A_ij ln A_ij, nats.
  double entropy_share = 0;   ///< The same over ln(i + 1), of queries with an earlier key.
  double mass = 0;            ///< Σ_j A_ij: below 1 where a row may weigh less
};

/// One layer over any number of sequences of one length.
class AttentionStatistics {
 public:
  static constexpr int kBins = 20;

  AttentionStatistics(std::int64_t heads, std::int64_t length);

  /// @param weights [B,H,rows,keys], query rows `first` .. `first` + rows − 1.
  void add(const at::Tensor& weights, std::int64_t first);

  /// Over the queries [begin, end). NaN without any.
  AttentionFigures figures(std::int64_t head, std::int64_t begin, std::int64_t end) const;
  /// Shares of the queries from 1 on by (i − argmax_j A_ij)/(i + 1), in bins of 1/20. NaN without any.
  std::vector<double> peaks(std::int64_t head) const;

 private:
  std::int64_t length_;
  at::Tensor distance_, entropy_, mass_, rows_;  // [H,T] float64, sums over sequences; rows_ [T]: how many
  at::Tensor peaks_;                             // [H, kBins] int64
};

/// Mean weight of each key over the queries that see it: α_k = Σ_{i ≥ k} A_ik / (T − k).
class KeyShares {
 public:
  explicit KeyShares(std::int64_t length) : length_(length) {}
  /// All ranges of one batch.
  void add(const at::Tensor& weights);
  /// [B,H,T] float64; resets the sums.
  at::Tensor take();

 private:
  std::int64_t length_;
  at::Tensor sums_;
};

/// Jensen-Shannon divergence of rows of weights, nats: [..., keys] and [..., keys] → [...]. In 0 .. ln 2.
at::Tensor jensen_shannon(const at::Tensor& p, const at::Tensor& q);

}  // namespace pe::evaluation
