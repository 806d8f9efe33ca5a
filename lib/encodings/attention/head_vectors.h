/// @file
/// Encodings that multiply queries or keys, as S2 leaves them, by vectors of their own that are as wide as a head. Beside one
/// that makes heads wider they cannot stand.
#pragma once

namespace pe::encodings {

class HoldsHeadVectors {
 public:
  virtual ~HoldsHeadVectors() = default;
  /// Do they meet what S2 leaves? False for those that read q and k before it.
  virtual bool meet_turned_heads() const { return true; }
};

}  // namespace pe::encodings
