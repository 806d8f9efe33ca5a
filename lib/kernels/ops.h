/// @file
/// Operations of a decoder between its matrix products, as functions on tensors without autograd. Each has up to three
/// forms. Plain tensor operations (ops_plain.cpp) are its definition and take every device and dtype. The CPU's kernels
/// (ops_cpu.cpp) are fp32; the plug-in's (ops_plugin.cpp) fp32 and bf16. `operations_for` chooses among them.
/// doc/add-a-kernel.md shows how to add one.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/cpu.h"

namespace pe::kernels {

using at::Tensor;

struct NormResult {
  Tensor y;
  Tensor rstd;   ///< [rows], of heads [rows, heads]; undefined where nothing was normed
  Tensor input;  ///< input of the norm; undefined for heads
};

/// A rotation by tables: encodings/rotary/rotary.h. Undefined tensors: none.
struct Rotation {
  Tensor cos, sin;   ///< fp32 [T, n] or [B, T, n], without gradients; rows of n numbers side by side
  bool half = true;  ///< pair p is (p, p + n); else (2p, 2p + 1)
};

/// Adjacent heads in the rows of a packed projection, from a column on. A row is a token (b, t).
struct PackedHeads {
  Tensor packed;  ///< [B · T, columns]
  std::int64_t column = 0, batch = 0, heads = 0, width = 0;

  std::int64_t rows() const { return packed.size(0); }
  std::int64_t length() const { return rows() / batch; }  ///< T
  Tensor columns_of(const Tensor& like_packed) const { return like_packed.narrow(1, column, heads * width); }
};

/// A stretch of flat buffers, alike in length.
struct AdamBuffers {
  Tensor values, gradients, first, second;
  Tensor shadow;  ///< bf16, or undefined
};

struct AdamRates {
  double lr = 0, beta1 = 0, beta2 = 0, decay = 0, eps = 0;
  std::int64_t step = 1;  ///< from 1, for the bias correction
  double divisor = 1;     ///< of the gradients
  Tensor verdict;  ///< fp32 [2] with the values: the divisor, and 1 where nothing is to change; undefined: `divisor`
  bool coupled = false;  ///< Adam; else AdamW
};

/// The queries or keys of a packed projection on their way out of it.
struct SplitPart {
  PackedHeads from;
  Tensor weight;  ///< [d_h] of the norm by head, or undefined
};

/// The way back. No heads: nothing to do.
struct SplitGradient {
  PackedHeads from;
  Tensor dout;             ///< [B, heads, T, d_h]; undefined: zeros
  Tensor weight, rstd;     ///< of the norm, or undefined
  Tensor weight_gradient;  ///< added to where it is defined
};

/// Changes of logits on their way into a cross-entropy; 0: none. Of its gradients: a factor.
struct LogitShape {
  double softcap = 0;  ///< logits are softcap · tanh(logit / softcap)
  double z_loss = 0;   ///< weight of (log Σ exp)² in the gradients; the losses are without it
  double scale = 1;    ///< factor of the gradients; the losses are without it
};

struct Operations {
  const char* name;  ///< "plain", "cpu" or "plug-in"
  /// Whether `split_heads` takes a rotation.
  bool rotates_heads;
  /// Whether `cross_entropy` takes bf16; else logits are widened to fp32 before.
  bool takes_low_precision_logits;

  /// RMSNorm over the last dimension, of x or of x + delta where that is defined.
  NormResult (*rms_norm)(const Tensor& x, const Tensor& weight, double eps, const Tensor& delta);
  /// The gradient by x, plus `add` where defined; adds the weight's own to `weight_gradient` where that is defined.
  Tensor (*rms_norm_backward)(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                              const Tensor& add, const Tensor& weight_gradient);

  /// Heads [B, heads, T, d_h] of queries and of keys, normed by head, then rotated.
  std::array<NormResult, 2> (*split_heads)(const SplitPart& q, const SplitPart& k, double eps,
                                           const Rotation& rotation);
  /// The inverse for gradients: writes the columns of queries, keys and values (whose heads are neither normed nor
  /// rotated).
  void (*split_heads_backward)(const SplitGradient& q, const SplitGradient& k, const SplitGradient& v,
                               const Rotation& rotation, const Tensor& dpacked);
  /// Heads x [B, H, T, d_h], rotated by fp32 tables [T, n], [B, T, n] or [B or 1, G, T, n], back with `sign` −1. Null:
  /// there is no such kernel, and encodings/rotary/rotary.cpp rotates.
  Tensor (*rotate)(const Tensor& x, const Rotation& rotation, double sign);

  /// The gradient [..., positions] of the source of gather(-1, index), in an order that is always the same; for some
  /// hundred positions at most, since each looks at all keys. Null: LibTorch's gradient is used.
  Tensor (*gather_gradient)(const Tensor& g, const Tensor& index, std::int64_t positions);
  /// 0 with probability p, else 1 / (1 − p), like `like` [samples, ...], by a key for each sample. Null: drawn on the
  /// host.
  Tensor (*dropout_mask)(const Tensor& like, double p, const std::vector<std::uint64_t>& keys);

  /// silu(gate) · up, where a row of gate_up is gate, then up.
  Tensor (*swiglu)(const Tensor& gate_up);
  Tensor (*swiglu_backward)(const Tensor& da, const Tensor& gate_up);

  /// gradient[ids] += scale · g, in an order that is always the same. @param g [..., d]. @param ids as many.
  void (*add_embedding_gradient)(const Tensor& g, const Tensor& ids, const Tensor& gradient, double scale);

  /// Losses of rows of logits [rows, V]. With `gradient`, logits become scale · (softmax − one-hot), as `shape` has it.
  /// Negative targets: 0.
  void (*cross_entropy)(Tensor& logits, const Tensor& targets, const Tensor& losses, bool gradient,
                        const LogitShape& shape);

  /// Σ x² of a contiguous tensor, in an order that neither threads nor instruction sets change. On a CPU summed in
  /// float64; on a GPU in fp32, by a tree.
  double (*sum_of_squares)(const Tensor& x);
  /// The same in float64 [] where x is, for which the host does not wait. Null: there is no such form.
  Tensor (*unread_sum_of_squares)(const Tensor& x);

  /// One update, shadows included. Null: LibTorch's fused optimizers are used, and `verdict` has no form.
  void (*adam)(const AdamBuffers& buffers, const AdamRates& rates);
};

extern const Operations kPlainOperations, kCpuOperations, kPluginOperations;

/// The forms for tensors like x.
const Operations& operations_for(const Tensor& x);

/// logits ← cap · tanh(logits / cap)
void cap_logits(const Tensor& logits, double cap);

/// `bare`, a cross-entropy without a shape, with one: more passes over the logits, paid only by those who ask.
void shaped_cross_entropy(Tensor& logits, const Tensor& targets, const Tensor& losses, bool gradient,
                          const LogitShape& shape, void (*bare)(Tensor&, const Tensor&, const Tensor&, bool));

/// The dtype of computations that need at least fp32.
inline at::ScalarType at_least_fp32(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace pe::kernels
