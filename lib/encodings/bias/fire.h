/// @file
/// Base of FIRE's forms: a small network reads x = ψ(i − j)/ψ(max(i, L)), ψ(d) = ln(1 + |c·d|), so that inputs of
/// longer texts stay within the range of training. While no query exceeds L the bias depends on distance alone.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "encodings/attention/fused_bias.h"
#include "encodings/attention/positional_encoding.h"
#include "support/config.h"

namespace pe::encodings {

struct FireOptions {
  std::int64_t initial_length = 512;
  void describe(support::FieldVisitor& v);
};

/// Li et al. 2023, arXiv:2310.04418.
class FireFamily : public PositionalEncoding, public FusesBias {
 public:
  Facts facts() const override { return {.shift_invariant = ShiftInvariance::kUntilEffectiveLength, .learned = true}; }
  Traits traits(const Span& span) const override;
  void begin(State& state) override;
  Tensor table(LayerContext& context, std::int64_t n) override;
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override;
  Tensor bias(const Rows& rows) override;
  FusedKind fused_kind(const Span& span) const override { return FusedKind::kBent; }
  FusedBias fused_bias(LayerContext& context, const Heads& heads) override;

 protected:
  struct Layer {
    Tensor c, length_multiplier;  ///< scalar, or [H,1] after `read`
    Tensor w1, b1, w2, b2;
  };

  /// @param heads numbers c, and length multipliers: 0 for one scalar of each, shared by the heads.
  FireFamily(const std::string& kind, const Shape& shape, const FireOptions& options, std::int64_t heads);

  /// Adds w1, b1, w2 and b2 of a layer.
  void add_network(Layer& layer, const std::string& kind, int index, at::IntArrayRef w1, at::IntArrayRef w2);
  std::vector<Layer> layers_;

  /// @param x [n] or [H,n]. @return [H,n]
  virtual Tensor network(const Tensor& x, const Layer& layer) const = 0;

 private:
  Tensor length(const Layer& layer) const;
  Tensor by_distance(const Layer& layer, std::int64_t n) const;  ///< [H,n], for queries that are not beyond L

  double effective_length(const Span& span) const;  ///< the least of all layers
  /// Whether a pass reads the effective length from the weights. On a GPU the read waits for queued work. A pass beyond
  /// the initial length does without it there: the form for any length is exact at short lengths too.
  bool asks_weights(const Span& span) const;
  /// Positions of the first and the last query row, where positions of a document follow each other; −1 if a read of
  /// them would wait for a GPU.
  std::pair<double, double> query_range(const Rows& rows) const;

  FireOptions options_;
};

inline constexpr std::int64_t kFireHidden = 32;

}  // namespace pe::encodings
