/// @file
/// The prior of Bayesian attention: a generalised Gaussian over distance for each head, as a bias.
#pragma once

#include <string>

#include "encodings/attention/positional_encoding.h"
#include "support/config.h"

namespace pe::encodings {

struct BamOptions {
  enum class Shapes { kOne, kLinear, kNormal };
  Shapes initial_shape = Shapes::kOne;
  bool location = false;
  void describe(support::FieldVisitor& v);
};

/// Bianchessi et al. 2025, arXiv:2505.22842: −(|j − i − μ| + 1e-5)^α · e^ς with μ = e^ℓ − e^−ℓ.
class BamPrior : public PositionalEncoding {
 public:
  Facts facts() const override { return {.learned = true}; }
  Traits traits(const Span& span) const override { return {.bias = BiasKind::kToeplitz, .bias_needs_grad = true}; }
  Tensor table(LayerContext& context, std::int64_t n) override;

 protected:
  BamPrior(const std::string& kind, const BamOptions& options, const Shape& shape);

 private:
  std::string kind_;
  Tensor alpha_, log_scale_, location_;  // [H] for all layers; location_ only where it is trained
};

}  // namespace pe::encodings
