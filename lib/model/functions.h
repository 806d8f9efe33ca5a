/// @file
/// The differentiable pieces of a decoder, one graph node each, that save what their backward pass needs and no more.
/// Gradients of weights are added straight to `Weight::gradient`, so accumulating over micro-batches costs nothing.
/// On the CPU in fp32 the parts between matrix products are the kernels of kernels.h, elsewhere plain tensor operations.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace pe::model {

using at::Tensor;

struct Weight {
  Tensor value;      ///< in the compute dtype (norms: at least fp32)
  Tensor gradient;   ///< at least fp32; undefined when no gradients are wanted
};

struct AttentionShape {
  std::int64_t heads = 1;      ///< H
  std::int64_t kv_heads = 1;   ///< G
  std::int64_t head_width = 1; ///< d_h
  double eps = 1e-6;
};

struct Projected {
  Tensor normed;   ///< [B, T, d_m], the input of the attention
  Tensor q;        ///< [B, H, T, d_h]
  Tensor k, v;     ///< [B, G, T, d_h]
};

/// scale · table[ids]. @param ids [B, T] int64. @param table the leaf that makes the graph start here.
Tensor embed(const Tensor& ids, const Tensor& table, const Weight& weight, double scale);

/// RMSNorm over the last dimension. @param x [..., d].
Tensor rms_norm(const Tensor& x, const Weight& weight, double eps);

/// RMSNorm of x + delta, in one pass where the plug-in's kernels run.
Tensor add_rms_norm(const Tensor& x, const Tensor& delta, const Weight& weight, double eps);

/// LayerNorm over the last dimension: (x − mean) / √(variance + eps) · weight (+ bias, where it is defined).
Tensor layer_norm(const Tensor& x, const Weight& weight, const Weight& bias, double eps);

/// x · Wᵀ (+ bias, where it is defined). @param x [..., inputs]. @param weight [outputs, inputs]. @param bias [outputs].
Tensor linear(const Tensor& x, const Weight& weight, const Weight& bias = {});

/// A rotation by tables: encodings/rotary.h. Undefined tensors: none.
struct Turn {
  Tensor cos, sin;     ///< fp32 [T, n] or [B, T, n], without gradients; rows of n numbers side by side
  bool half = true;    ///< pair p is (p, p + n); else (2p, 2p + 1)
};

/// May `norm_project` be given a turn for such an x? Where it may, q and k are read and written once for norm and rotation.
bool turns_with_heads(const Tensor& x, const Weight& query_norm, const Weight& key_norm, const AttentionShape& shape);

/// RMSNorm, the packed projection [(H + 2G) · d_h, d_m], and RMSNorm on q and k where the weights are defined: per head
/// for weights [d_h], over all heads together for [H · d_h] and [G · d_h]. With `turn` q and k are then turned.
Projected norm_project(const Tensor& x, const Weight& norm, const Weight& packed, const Weight& query_norm,
                       const Weight& key_norm, const AttentionShape& shape, const Turn& turn = {});

/// x + merge(heads) · Wᵀ. @param heads [B, H, T, d_h].
Tensor project_residual(const Tensor& x, const Tensor& heads, const Weight& output);

struct FeedForwardResult {
  Tensor sum;   ///< x + y
  Tensor y;     ///< down · (silu(gate · n) ∘ (up · n)), n = RMSNorm(x)
};

/// @param gate_up [2 · d_ff, d_m], gate first. @param down [d_m, d_ff].
FeedForwardResult feed_forward(const Tensor& x, const Weight& norm, const Weight& gate_up, const Weight& down, double eps);

/// What happens to logits between the head and the loss.
struct LogitOptions {
  double softcap = 0;   ///< c: logits become c · tanh(logit / c); 0: they stay
  /// z: z · (log Σ exp)² is added to the loss of each row (Chowdhery et al. 2022). It shapes gradients alone: the value
  /// stays the cross entropy, so that curves with and without compare.
  double z_loss = 0;
};

/// Sum over rows of −log softmax(hidden · Wᵀ + bias)[target], a float64 scalar; rows with negative targets do not count.
/// Logits exist for a chunk of rows at a time; with gradients enabled the chunk's gradients are taken at once.
/// @param hidden [N, d_m]. @param head [V, d_m]. @param bias [V], or undefined.
Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& targets, const Weight& head,
                            const LogitOptions& options = {}, const Weight& bias = {});

/// A stretch of flat buffers, alike in length.
struct AdamBuffers {
  Tensor values, gradients, first, second;
  Tensor shadow;   ///< bf16, or undefined
};

struct AdamRates {
  double lr = 0, beta1 = 0, beta2 = 0, decay = 0, eps = 0;
  std::int64_t step = 1;   ///< from 1, for the bias correction
  double divisor = 1;      ///< of the gradients
  bool coupled = false;    ///< Adam; else AdamW
};

/// One update by the plug-in's kernel, shadows included. @return false, and nothing is done, where the plug-in is not in use.
bool adam_step(const AdamBuffers& buffers, const AdamRates& rates);

/// c · tanh(logits / c), in place.
void cap_logits(const Tensor& logits, double cap);

/// The same for each row, fp32 (float64 for float64) [N], without gradients.
Tensor row_losses(const Tensor& hidden, const Tensor& targets, const Tensor& head, const LogitOptions& options = {},
                  const Tensor& bias = {});

}  // namespace pe::model
