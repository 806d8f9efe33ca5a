/// @file
/// S8 for encodings that mix additional values, which may differ from pair to pair, by the weights of attention.
#pragma once

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

class MixesByWeights {
 public:
  virtual ~MixesByWeights() = default;
  virtual bool mixes() const { return true; }
  /// @param weights [B,H,rows,keys]. @return [B,H,rows,d_h], added to the weighted sum of v.
  virtual Tensor mix(const Rows& rows, const Tensor& weights) = 0;
};

/// Null where an encoding has nothing to add.
inline MixesByWeights* mixer_of(PositionalEncoding& encoding) {
  auto* mixer = dynamic_cast<MixesByWeights*>(&encoding);
  return mixer != nullptr && mixer->mixes() ? mixer : nullptr;
}

}  // namespace pe::encodings
