/// @file
/// Encodings that limit how far back queries see, layer by layer.
#pragma once

#include <cstdint>

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

class WindowedEncoding {
 public:
  virtual ~WindowedEncoding() = default;
  /// Rows that a query of the layer sees, its own and those before it, in tokens; 0: all. Needs a causal mask.
  virtual std::int64_t window(int layer) const = 0;
};

/// Window of an encoding, or the narrowest window of a stack's members; 0: all rows are seen.
std::int64_t window_of(const PositionalEncoding& encoding, int layer);

/// Window of a layer in a pass; 0 where it is as long as the keys.
std::int64_t window_of(const LayerContext& context);

/// Once per layer and pass, when its context is made.
void set_window(const PositionalEncoding& encoding, LayerContext& context);

}  // namespace pe::encodings
