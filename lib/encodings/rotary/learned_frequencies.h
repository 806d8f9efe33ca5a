/// @file
/// RoPE whose frequencies are trained, in four parameterisations.
#pragma once

#include <string>

#include "encodings/rotary/rescaling.h"

namespace pe::encodings {

/// scale: θ·g; direct: θ itself; log: exp(u/κ); log_shared: θ·exp(α), one α for the whole model.
enum class FrequencyForm { kScale, kDirect, kLog, kLogShared };

/// cos and sin of position·θ, taken in float64 and rounded to `type`, with a gradient for θ.
/// @param positions [T] or [B,T]. @param theta float64 [n] or [G,n]. @return [..,T,n] or [..,G,T,n].
RotaryCache::Values learned_angles(const Tensor& positions, const Tensor& theta, at::ScalarType type);

class LearnedFrequencies : public Rotary {
 public:
  /// @param per_head frequencies for each key/value head rather than for the layer.
  /// @param kappa of `log`: a step of an adaptive optimizer moves ln θ by the learning rate over κ.
  LearnedFrequencies(const std::string& kind, const RotaryOptions& options, FrequencyForm form, bool per_head,
                     double kappa, const Shape& shape, RescalingPointer rescaling);
  bool only_rotates() const override { return false; }
  void transform(LayerContext& context, Heads& heads) override;
  std::optional<RotatedPairs> rotated_pairs(int layer, const Span& span) const override;

 protected:
  Facts own_facts() const override { return {.rotates = true, .learned = true}; }

 private:
  Tensor theta(int layer, const Span& span) const;

  FrequencyForm form_;
  bool per_head_;
  double kappa_;
  std::vector<Tensor> frequency_;  // one, or one a layer; [d_h/2] or [G, d_h/2]
};

}  // namespace pe::encodings
