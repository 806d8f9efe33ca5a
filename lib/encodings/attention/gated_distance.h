/// @file
/// Biases that are a distance between places of tokens, times gates of the query and of the key. A GPU has a fused
/// kernel for them, with all gradients.
#pragma once

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

/// The bias −(g_i + e_j)·(P_i − P_j), at least float32.
struct GatedDistance {
  Tensor places;       ///< P [B or 1,H,S]; undefined: no such bias
  Tensor query_gates;  ///< g [B or 1,H,T]
  Tensor key_gates;    ///< e [B or 1,H,S]; undefined: zeros
};

class GatesDistances {
 public:
  virtual ~GatesDistances() = default;
  /// Whether S5 is such a bias, while positions are contiguous.
  virtual bool gates_distances(const Span& span) const { return true; }
  virtual GatedDistance gated_distance(LayerContext& context, const Heads& heads) = 0;
};

/// Null where an encoding has no such bias.
inline GatesDistances* gates_of(PositionalEncoding& encoding, const Span& span) {
  auto* gates = dynamic_cast<GatesDistances*>(&encoding);
  return gates != nullptr && gates->gates_distances(span) ? gates : nullptr;
}

}  // namespace pe::encodings
