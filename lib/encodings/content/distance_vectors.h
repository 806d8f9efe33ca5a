/// @file
/// Base of shaw and transformer_xl: queries, after S2, are multiplied by trained vectors of the distance. A rotated
/// query gives another product at every position, so with a rotation they are not shift invariant.
#pragma once

#include "encodings/attention/head_vectors.h"
#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

class DistanceVectors : public PositionalEncoding, public HoldsHeadVectors {
 public:
  using PositionalEncoding::PositionalEncoding;

  Facts facts() const final {
    return {.shift_invariant = beside_rotation_ ? ShiftInvariance::kNever : ShiftInvariance::kAlways,
            .learned = true,
            .content_dependent = true};
  }
  void join(const std::vector<const PositionalEncoding*>& others) final {
    for (const PositionalEncoding* other : others) beside_rotation_ = beside_rotation_ || other->facts().rotates;
  }

 private:
  bool beside_rotation_ = false;
};

}  // namespace pe::encodings
