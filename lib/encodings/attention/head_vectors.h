/// @file
/// Encodings that multiply queries or keys, after S2, by separate vectors as wide as a head. They cannot be stacked
/// with an encoding that makes heads wider.
#pragma once

namespace pe::encodings {

class HoldsHeadVectors {
 public:
  virtual ~HoldsHeadVectors() = default;
  /// Do the vectors multiply the output of S2? False for encodings that read q and k before it.
  virtual bool apply_after_rotation() const { return true; }
};

}  // namespace pe::encodings
