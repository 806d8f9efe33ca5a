/// @file
/// The differentiable pieces of a decoder, one graph node each, that save only the tensors of their backward pass.
/// Gradients of weights are added straight to `Weight::gradient`, so accumulating over micro-batches costs nothing.
/// The computation between matrix products, and its place, is kernels/ops.h; the products are kernels/product.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/ops.h"

namespace pe::model {

using at::Tensor;

struct Weight {
  Tensor value;     ///< in the compute dtype (norms: at least fp32)
  Tensor gradient;  ///< at least fp32; undefined when no gradients are wanted
};

struct AttentionShape {
  std::int64_t heads = 1;       ///< H
  std::int64_t kv_heads = 1;    ///< G
  std::int64_t head_width = 1;  ///< d_h
  double eps = 1e-6;
};

struct ProjectedHeads {
  Tensor normed;  ///< [B, T, d_m], the input of the attention
  Tensor q;       ///< [B, H, T, d_h]
  Tensor k, v;    ///< [B, G, T, d_h]; v is read where the projection wrote it, and strided
  /// The input again. A caller that adds the output of attention to the input adds it to this tensor. Its gradient then
  /// joins the other inside the norm's backward pass, which saves a sum.
  Tensor residual;
};

/// scale · table[ids]. @param ids [B, T] int64. @param table the leaf that makes the graph start here.
Tensor embed(const Tensor& ids, const Tensor& table, const Weight& weight, double scale);

/// RMSNorm over the last dimension. @param x [..., d].
Tensor rms_norm(const Tensor& x, const Weight& weight, double eps);

/// RMSNorm of x + delta, in one pass where the plug-in's kernels run.
Tensor add_rms_norm(const Tensor& x, const Tensor& delta, const Weight& weight, double eps);

/// LayerNorm over the last dimension: (x − mean) / √(variance + eps) · weight (+ bias, where it is defined).
Tensor layer_norm(const Tensor& x, const Weight& weight, const Weight& bias, double eps);

/// x · Wᵀ (+ bias, where it is defined). @param x [..., inputs]. @param weight [outputs, inputs]. @param bias
/// [outputs].
Tensor linear(const Tensor& x, const Weight& weight, const Weight& bias = {});

using kernels::Rotation;

/// May `norm_project` be given a rotation for such an x? Where it may, q and k are read and written once for norm and
/// rotation.
bool rotates_with_heads(const Tensor& x, const Weight& query_norm, const Weight& key_norm, const AttentionShape& shape);

/// RMSNorm, the packed projection [(H + 2G) · d_h, d_m], and RMSNorm on q and k where the weights are defined. It is
/// per head for weights [d_h], over all heads together for [H · d_h] and [G · d_h]. With `rotation` q and k are then
/// rotated.
ProjectedHeads norm_project(const Tensor& x, const Weight& norm, const Weight& packed, const Weight& query_norm,
                            const Weight& key_norm, const AttentionShape& shape, const Rotation& rotation = {});

/// x + merge(heads) · Wᵀ. @param heads [B, H, T, d_h].
Tensor project_residual(const Tensor& x, const Tensor& heads, const Weight& output);

/// x + y, y = down · (silu(gate · n) ∘ (up · n)), n = RMSNorm(x); the sum is taken inside the last product.
/// @param gate_up [2 · d_ff, d_m], gate first. @param down [d_m, d_ff].
Tensor feed_forward(const Tensor& x, const Weight& norm, const Weight& gate_up, const Weight& down, double eps);

struct FeedForwardParts {
  Tensor y;
  Tensor residual;  ///< x again, to add y to; see Projected
};

/// The same for callers that need y alone.
FeedForwardParts feed_forward_parts(const Tensor& x, const Weight& norm, const Weight& gate_up, const Weight& down,
                                    double eps);

/// Changes of logits between the head and the loss: a cap, and a z-loss (Chowdhery et al. 2022). The z-loss shapes
/// gradients alone: the value stays the cross entropy, so that curves with and without compare.
using LogitOptions = kernels::LogitShape;

/// Sum over rows of −log softmax(hidden · Wᵀ + bias)[target], a float64 scalar; rows with negative targets do not
/// count. Logits exist for a chunk of rows at a time. With gradients enabled, each chunk's gradients are computed in
/// the same pass.
/// @param hidden [N, d_m]. @param head [V, d_m]. @param bias [V], or undefined.
Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& targets, const Weight& head,
                            const LogitOptions& options = {}, const Weight& bias = {});

/// The same for each row, fp32 (float64 for float64) [N], without gradients.
Tensor row_losses(const Tensor& hidden, const Tensor& targets, const Tensor& head, const LogitOptions& options = {},
                  const Tensor& bias = {});

/// options.scale times `linear_cross_entropy`, for one call of backward() on the result itself. Where the plug-in's
/// kernels run, the gradients by head and bias are added here, already scaled, and nothing is read twice for the scale.
Tensor training_loss(const Tensor& hidden, const Tensor& targets, const Weight& head, const LogitOptions& options,
                     const Weight& bias = {});

}  // namespace pe::model
