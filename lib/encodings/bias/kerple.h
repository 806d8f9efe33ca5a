/// @file
/// Base of KERPLE's two kernels: two positive numbers for each head, kept from zero after each optimizer step.
#pragma once

#include <string>
#include <vector>

#include "encodings/attention/positional_encoding.h"
#include "support/config.h"

namespace pe::encodings {

struct KerpleOptions {
  double floor = 0.01;
  bool shared = true;
  void describe(support::FieldVisitor& v);
};

/// Chi et al. 2022, arXiv:2205.09921.
class Kerple : public PositionalEncoding {
 public:
  Facts facts() const override { return {.learned = true}; }
  Traits traits(const Span& span) const override { return {.bias = BiasKind::kToeplitz, .bias_needs_grad = true}; }
  Tensor table(LayerContext& context, std::int64_t n) final;
  void after_step() final;

 protected:
  /// @param largest_p p stays below it.
  Kerple(const std::string& kind, const Shape& shape, const KerpleOptions& options, double largest_p);

  /// @param d distances [n]. @param p, a [H,1]. @return [H,n]
  virtual Tensor kernel(const Tensor& d, const Tensor& p, const Tensor& a) const = 0;

 private:
  std::string kind_;
  KerpleOptions options_;
  double largest_p_;
  std::vector<Tensor> p_, a_;  // [H], one for all layers or one for each
};

}  // namespace pe::encodings
