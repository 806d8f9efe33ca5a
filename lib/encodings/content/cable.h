/// @file
/// CABLE's family: each token takes a step, and a bias depends on the steps taken between key and query.
#pragma once

#include <string>
#include <vector>

#include "encodings/attention/fused_bias.h"

namespace pe::encodings {

/// Veisi et al. 2025, arXiv:2503.08067, second version. s = relu(W_c x), S its running sum, D = S_i − S_j.
enum class CableForm {
  kWeighted,   ///< −softplus(W_s x_i)·D
  kPlain,      ///< −D
  kLogSquare,  ///< −ln(1 + D²)
};

class Cable : public PositionalEncoding, public FusesBias {
 public:
  Cable(const std::string& kind, CableForm form, const Shape& shape);

  Facts facts() const override { return {.learned = true, .content_dependent = true}; }
  Traits traits(const Span& span) const override;
  Channels channels(LayerContext& context, const Heads& heads) override;
  FusedKind fused_kind(const Span& span) const override {
    return form_ != CableForm::kLogSquare ? FusedKind::kGated : FusedKind::kNone;
  }
  FusedBias fused_bias(LayerContext& context, const Heads& heads) override;
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override;
  Tensor bias(const Rows& rows) override;

 private:
  Tensor steps(const LayerContext& context) const;   ///< S, [B,H,S]
  Tensor slopes(const LayerContext& context) const;  ///< [B,H,T]

  CableForm form_;
  std::vector<Tensor> step_, slope_;  // [H,d_m] for each layer
};

}  // namespace pe::encodings
