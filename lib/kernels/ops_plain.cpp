// The definitions, in LibTorch's operators.
#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "kernels/dispatch.h"
#include "kernels/ops.h"

namespace pe::kernels {
namespace {

NormResult rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& delta) {
  const Tensor in = delta.defined() ? x + delta : x, values = in.to(at_least_fp32(in));
  const Tensor rstd = at::rsqrt((values * values).mean(-1, true) + eps);
  return {(values * rstd * weight).to(in.scalar_type()), rstd.reshape({-1}), in};
}

Tensor rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd, const Tensor& add,
                         const Tensor& weight_gradient) {
  const std::int64_t width = x.size(-1), rows = x.numel() / width;
  const Tensor g = dy.to(at_least_fp32(x)), values = x.to(at_least_fp32(x));
  std::vector<std::int64_t> row_shape = x.sizes().vec();
  row_shape.back() = 1;
  const Tensor r = rstd.reshape(row_shape);
  if (weight_gradient.defined()) weight_gradient.add_((g * values * r).reshape({rows, width}).sum(0));
  const Tensor gw = g * weight;
  Tensor dx = gw * r - values * r.pow(3) * ((gw * values).sum(-1, true) / static_cast<double>(width));
  if (add.defined()) dx = dx + add;
  return dx.to(x.scalar_type());
}

NormResult split_part(const SplitPart& part, double eps) {
  const PackedHeads& from = part.from;
  const Tensor heads = from.columns_of(from.packed).reshape({from.batch, from.length(), from.heads, from.width});
  if (!part.weight.defined()) return {heads.transpose(1, 2).contiguous(), {}, {}};
  const NormResult normed = rms_norm(heads, part.weight, eps, {});
  return {normed.y.transpose(1, 2).contiguous(), normed.rstd, {}};
}

std::array<NormResult, 2> split_heads(const SplitPart& q, const SplitPart& k, double eps, const Rotation&) {
  return {split_part(q, eps), split_part(k, eps)};
}

void split_part_backward(const SplitGradient& of, const Tensor& dpacked) {
  const PackedHeads& from = of.from;
  if (from.heads == 0) return;
  if (!of.dout.defined()) {
    from.columns_of(dpacked).zero_();
    return;
  }
  Tensor gradient = of.dout.transpose(1, 2);
  if (of.weight.defined()) {
    const Tensor part = from.columns_of(from.packed).reshape({from.batch, from.length(), from.heads, from.width});
    gradient = rms_norm_backward(gradient, part, of.weight, of.rstd, {}, of.weight_gradient);
  }
  from.columns_of(dpacked).copy_(gradient.reshape({from.rows(), from.heads * from.width}));
}

void split_heads_backward(const SplitGradient& q, const SplitGradient& k, const SplitGradient& v, const Rotation&,
                          const Tensor& dpacked) {
  for (const SplitGradient* part : {&q, &k, &v}) split_part_backward(*part, dpacked);
}

Tensor swiglu(const Tensor& gate_up) {
  const std::int64_t inner = gate_up.size(1) / 2;
  const Tensor gate = gate_up.narrow(1, 0, inner).to(at_least_fp32(gate_up)), up = gate_up.narrow(1, inner, inner);
  return (gate * at::sigmoid(gate) * up).to(gate_up.scalar_type());
}

Tensor swiglu_backward(const Tensor& da, const Tensor& gate_up) {
  const std::int64_t inner = gate_up.size(1) / 2;
  const Tensor gate = gate_up.narrow(1, 0, inner).to(at_least_fp32(gate_up)), up = gate_up.narrow(1, inner, inner);
  const Tensor s = at::sigmoid(gate), d = at::empty_like(gate_up);
  d.narrow(1, 0, inner).copy_(da * up * s * (1 + gate * (1 - s)));
  d.narrow(1, inner, inner).copy_(da * gate * s);
  return d;
}

void add_embedding_gradient(const Tensor& g, const Tensor& ids, const Tensor& gradient, double scale) {
  const Tensor wide = g.to(gradient.scalar_type()).reshape({-1, gradient.size(1)});
  gradient.add_(at::embedding_dense_backward(wide, ids.reshape({-1}), gradient.size(0), -1, false), scale);
}

void bare_cross_entropy(Tensor& logits, const Tensor& targets, const Tensor& losses, bool gradient) {
  const Tensor counted = targets.ge(0), index = targets.clamp_min(0).unsqueeze(1);
  const Tensor log_probabilities = at::log_softmax(logits, 1);
  losses.copy_(log_probabilities.gather(1, index).squeeze(1).neg().mul(counted));
  if (!gradient) return;
  logits = log_probabilities.exp();
  logits.scatter_add_(1, index, at::zeros_like(logits.narrow(1, 0, 1)).sub_(1));
  logits.mul_(counted.unsqueeze(1));
}

double sum_of_squares(const Tensor& x) {
  constexpr std::int64_t kPiece = std::int64_t{1} << 22;  // numbers that are widened at a time
  const Tensor flat = x.reshape({-1});
  double sum = 0;
  for (std::int64_t first = 0; first < flat.numel(); first += kPiece) {
    sum += flat.narrow(0, first, std::min(kPiece, flat.numel() - first)).to(at::kDouble).square().sum().item<double>();
  }
  return sum;
}

void cross_entropy(Tensor& logits, const Tensor& targets, const Tensor& losses, bool gradient,
                   const LogitShape& shape) {
  shaped_cross_entropy(logits, targets, losses, gradient, shape, bare_cross_entropy);
}

}  // namespace

void cap_logits(const Tensor& logits, double cap) { logits.div_(cap).tanh_().mul_(cap); }

void shaped_cross_entropy(Tensor& logits, const Tensor& targets, const Tensor& losses, bool gradient,
                          const LogitShape& shape, void (*bare)(Tensor&, const Tensor&, const Tensor&, bool)) {
  const auto scale_by = [&](double factor) {
    if (gradient && factor != 1) logits.mul_(factor);
  };
  if (shape.softcap <= 0 && shape.z_loss <= 0) {
    bare(logits, targets, losses, gradient);
    return scale_by(shape.scale);
  }
  const Tensor index = targets.clamp_min(0).unsqueeze(1);
  Tensor slope, of_target;
  if (shape.softcap > 0) {
    cap_logits(logits, shape.softcap);
    if (gradient) slope = (logits / shape.softcap).square_().neg_().add_(1);
  }
  if (gradient && shape.z_loss > 0) of_target = logits.gather(1, index);
  bare(logits, targets, losses, gradient);
  if (!gradient) return;
  if (shape.z_loss > 0) {
    // logits hold p − one-hot, and the z-loss has the gradient 2·z·lse·p.
    const Tensor counted = targets.ge(0).unsqueeze(1);
    const Tensor factor = (losses.unsqueeze(1) + of_target).mul_(2 * shape.z_loss).mul_(counted);
    logits.mul_(factor + 1);
    logits.scatter_add_(1, index, factor);
  }
  if (slope.defined()) logits.mul_(slope);
  scale_by(shape.scale);
}

const Operations kPlainOperations = {.name = "plain",
                                     .rms_norm = rms_norm,
                                     .rms_norm_backward = rms_norm_backward,
                                     .split_heads = split_heads,
                                     .split_heads_backward = split_heads_backward,
                                     .swiglu = swiglu,
                                     .swiglu_backward = swiglu_backward,
                                     .add_embedding_gradient = add_embedding_gradient,
                                     .cross_entropy = cross_entropy,
                                     .sum_of_squares = sum_of_squares};

const Operations& operations_for(const Tensor& x) {
  if (plugin_for(x) != nullptr) return kPluginOperations;
  return cpu_for(x) != nullptr ? kCpuOperations : kPlainOperations;
}

}  // namespace pe::kernels
