/// @file
/// Biases that a GPU's kernel computes from numbers of distances, queries and keys, with all gradients; a bias by
/// counts of keys; and stick-breaking, which takes the place of softmax there.
#pragma once

#include <optional>

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

/// The bias −(g_i + e_j)·(P_i − P_j), at least float32.
struct GatedDistance {
  Tensor places;       ///< P [B or 1,H,S]; undefined: no such bias
  Tensor query_gates;  ///< g [B or 1,H,T]
  Tensor key_gates;    ///< e [B or 1,H,S]; undefined: zeros
};

/// The bias f(m(i − j)·r_i), float32. f is a line that bends at knots; a knot above all inputs has no effect.
struct BentDistance {
  Tensor measure;     ///< m [H,S], without a gradient; undefined: no such bias
  Tensor derivative;  ///< of m by `parameter`, [H,S]
  Tensor parameter;   ///< [H]; only its gradient matters
  Tensor numbers;     ///< r [B or 1,H,T]
  Tensor knots,
      bends;    ///< [H,32], rising and finite; by how much the slope changes there
  Tensor line;  ///< [H,2]: slope of f and its value at 0, before all knots
};

/// Weights σ(z_ij)·Π (1 − σ(z_il)) over the keys l between j and i.
struct StickBreaking {
  bool attend_current = false;  ///< a query sees its own key
  bool remainder = true;        ///< the weight that no key took goes to the query's own value
};

/// The bias Σ slope·ln σ(a_i·c_l) over the keys l after j up to i, at least float32.
struct PathOfEdges {
  Tensor queries, keys;  ///< a [B,H,T,8], c [B,H,S,8]; undefined: no such bias
  Tensor slopes;         ///< [H], without a gradient
};

enum class FusedKind { kNone, kGated, kBent, kPairs, kStick, kCounts, kEdges, kNetwork };

/// Of one kind at most.
struct FusedBias {
  GatedDistance gated;
  BentDistance bent;
  Tensor pairs;  ///< S5 for all rows, [B or 1,H or 1,T,S]; undefined: no such bias
  std::optional<StickBreaking> stick;
  /// Logits of counts [B,H,T,positions]. The bias of a key is read between them at Σ σ(logit) over the keys from it to
  /// the query, at most positions − 1. Undefined: no such bias.
  Tensor counts;
  PathOfEdges edges;
};

class FusesBias {
 public:
  virtual ~FusesBias() = default;
  /// The kind of S5 while positions are contiguous, kCounts or kNetwork for S7, or kStick for S8.
  virtual FusedKind fused_kind(const Span& span) const = 0;
  /// For all kinds but kNetwork.
  virtual FusedBias fused_bias(LayerContext& context, const Heads& heads) { return {}; }
  /// Of kNetwork: by how much S7 changes the logits of rows, fp32 [B,H,rows,keys]. Positions are contiguous.
  virtual Tensor fused_rewrite(const Rows& rows) { return {}; }
};

inline FusedKind fused_kind(const PositionalEncoding& encoding, const Span& span) {
  const auto* fuses = dynamic_cast<const FusesBias*>(&encoding);
  return fuses != nullptr ? fuses->fused_kind(span) : FusedKind::kNone;
}

}  // namespace pe::encodings
