/// @file
/// Encodings whose logits no shift of all positions changes, unless another member of a stack rotates q and k. Vectors
/// for distances, reflections and gates per channel do not commute with a rotation.
#pragma once

#include <vector>

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

class InvariantAlone : public PositionalEncoding {
 public:
  using PositionalEncoding::PositionalEncoding;

  Facts facts() const override {
    return {.shift_invariant = with_rotation_ ? ShiftInvariance::kNever : ShiftInvariance::kAlways,
            .learned = true,
            .content_dependent = true};
  }
  void enter_stack(const std::vector<const PositionalEncoding*>& others) override {
    for (const PositionalEncoding* other : others) with_rotation_ = with_rotation_ || other->facts().rotates;
  }

 private:
  bool with_rotation_ = false;
};

}  // namespace pe::encodings
