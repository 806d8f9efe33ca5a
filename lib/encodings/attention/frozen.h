/// @file
/// Tensors that an encoding draws once and never trains. They are no parameters, yet another program needs them to
/// compute the same.
#pragma once

#include <vector>

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

class FrozenTables {
 public:
  virtual ~FrozenTables() = default;
  /// Named like parameters; none requires a gradient. Write to one only before the first pass.
  virtual const std::vector<Parameter>& frozen() const = 0;
};

/// Frozen tensors of an encoding or of a stack's members; most have none.
const std::vector<Parameter>& frozen_of(const PositionalEncoding& encoding);

}  // namespace pe::encodings
