/// @file
/// Tensors that an encoding draws once and never trains. They are no parameters, yet another program needs them to compute
/// the same.
#pragma once

#include <vector>

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

class HoldsFrozen {
 public:
  virtual ~HoldsFrozen() = default;
  /// Named like parameters; none requires a gradient. Whoever writes to one does so before the first pass.
  virtual const std::vector<Parameter>& frozen() const = 0;
};

/// Those of an encoding or of a stack's members; most have none.
const std::vector<Parameter>& frozen_of(const PositionalEncoding& encoding);

}  // namespace pe::encodings
