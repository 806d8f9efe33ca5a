/// @file
/// PaTH: between a key and a query every token reflects. The logit is a_ij = scale · k_jᵀ (H_{j+1} … H_i) q_i with H_t
/// = I − β_t w_t w_tᵀ. w and β are computed from the tokens.
#pragma once

#include <string>
#include <vector>

#include "encodings/attention/head_vectors.h"
#include "encodings/content/invariant_alone.h"

namespace pe::encodings {

/// Yang et al. 2025, arXiv:2505.16381.
class Path : public InvariantAlone, public HoldsHeadVectors {
 public:
  Path(const std::string& kind, const Shape& shape);
  Traits traits(const Span& span) const override {
    return {.own_logits = true, .needs_row_constants = true, .live_logits = 8};
  }
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override;
  Tensor logits(const Rows& rows) override;

 private:
  struct Layer {
    Tensor down, up, conv, beta_weight, beta_bias;
  };
  /// Unit directions [B,G,S,d_h] and strengths [B,G,S], at least float32.
  void read_tokens(const LayerContext& context, Tensor& w, Tensor& beta) const;

  std::vector<Layer> layers_;
};

/// How many of the row inputs are Path's own; a member of the family adds its own after them.
inline constexpr std::size_t kPathInputs = 4;

/// The logits of PaTH for given directions w [B,H,S,d_h] and strengths β [B,H,S], in blocks of `block` rows. For tests,
/// and for those who bring their own w and β. q [B,H,T,d_h], k [B,G,S,d_h] as in a pass.
std::vector<Tensor> path_inputs(const Tensor& q, const Tensor& k, const Tensor& w, const Tensor& beta,
                                std::int64_t block);
/// Rows begin .. end − 1 of the queries against keys 0 .. keys − 1, not scaled; 0 where a key is in the future.
Tensor path_logits(const std::vector<Tensor>& inputs, std::int64_t begin, std::int64_t end, std::int64_t keys,
                   std::int64_t block);

}  // namespace pe::encodings
