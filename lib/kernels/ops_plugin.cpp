// By the plug-in's kernels (cuda/plugin.h), on a GPU's current stream.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/sort.h>

#include <cmath>
#include <cstring>

#include "cuda/plugin.h"
#include "kernels/dispatch.h"
#include "kernels/ops.h"

namespace pe::kernels {
namespace {

bool is_bf16(const Tensor& x) { return x.scalar_type() == at::kBFloat16; }
const void* bytes_of(const Tensor& x) { return x.defined() ? x.data_ptr() : nullptr; }
float* floats_of(const Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; }

/// For sums over `rows` rows of `width` columns.
Tensor scratch_for(std::int64_t rows, std::int64_t width, const Tensor& like) {
  return at::empty({pe_cuda_parts(rows) * width}, like.options().dtype(at::kFloat));
}

/// Arguments of a rotation; no pairs where nothing rotates.
PeCudaTurn rotation_of(const Rotation& rotation) {
  if (!rotation.cos.defined()) return {};
  const Tensor& cos = rotation.cos;
  return {cos.data_ptr<float>(),
          rotation.sin.data_ptr<float>(),
          cos.dim() == 3 && cos.size(0) > 1 ? cos.stride(0) : 0,
          cos.stride(-2),
          cos.size(-1),
          rotation.half};
}

NormResult rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& delta) {
  const PeCudaTable* plugin = plugin_for(x);
  const std::int64_t width = x.size(-1), rows = x.numel() / width;
  const Tensor in = x.contiguous(), more = delta.defined() ? delta.to(x.scalar_type()).contiguous() : delta;
  const Tensor sum = more.defined() ? at::empty_like(in) : in;
  Tensor y = at::empty_like(in), rstd = at::empty({rows}, in.options().dtype(at::kFloat));
  require_launched(
      plugin->rms_norm(in.data_ptr(), bytes_of(more), weight.data_ptr<float>(), sum.data_ptr(), y.data_ptr(),
                       rstd.data_ptr<float>(), rows, width, static_cast<float>(eps), is_bf16(x), stream_of(plugin, x)),
      "rms_norm");
  return {y, rstd, sum};
}

Tensor rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd, const Tensor& add,
                         const Tensor& weight_gradient) {
  const PeCudaTable* plugin = plugin_for(x);
  const std::int64_t width = x.size(-1), rows = x.numel() / width;
  const Tensor g = dy.to(x.scalar_type()).contiguous(), in = x.contiguous();
  const Tensor residual = add.defined() ? add.to(x.scalar_type()).contiguous() : add;
  Tensor dx = at::empty_like(in);
  const Tensor scratch = weight_gradient.defined() ? scratch_for(rows, width, x) : Tensor();
  require_launched(
      plugin->rms_norm_backward(g.data_ptr(), in.data_ptr(), weight.data_ptr<float>(), rstd.data_ptr<float>(),
                                bytes_of(residual), dx.data_ptr(), floats_of(weight_gradient), floats_of(scratch), rows,
                                width, is_bf16(x), stream_of(plugin, x)),
      "rms_norm_backward");
  return dx;
}

PeCudaPart part_of(const PackedHeads& from, const Tensor& heads, const Tensor& weight, const Tensor& rstd,
                   const Tensor& dweight) {
  PeCudaPart part{.heads = from.heads, .column = from.column};
  if (heads.defined()) {
    part.values = heads.data_ptr();
    part.by_sequence = heads.stride(0);
    part.by_head = heads.stride(1);
    part.by_row = heads.stride(2);
  }
  part.weight = floats_of(weight);
  part.rstd = floats_of(rstd);
  part.dweight = floats_of(dweight);
  return part;
}

PeCudaSplit split_of(const PackedHeads& from, const Rotation& rotation) {
  return {.turn = rotation_of(rotation),
          .tokens = from.rows(),
          .length = from.length(),
          .width = from.width,
          .packed_row = from.packed.size(1)};
}

std::array<NormResult, 2> split_heads(const SplitPart& q, const SplitPart& k, double eps, const Rotation& rotation) {
  const Tensor& packed = q.from.packed;
  if (q.from.width > kWidestRotatedHead) return kPlainOperations.split_heads(q, k, eps, {});
  const PeCudaTable* plugin = plugin_for(packed);
  // LibTorch's attention lays its result out as q: by tokens, so that neither pass has to copy it for the projection
  // after it.
  const auto fresh = [&](const SplitPart& part, bool by_tokens) {
    const PackedHeads& from = part.from;
    NormResult made{
        by_tokens ? at::empty({from.batch, from.length(), from.heads, from.width}, packed.options()).transpose(1, 2)
                  : at::empty({from.batch, from.heads, from.length(), from.width}, packed.options()),
        {},
        {}};
    if (part.weight.defined()) made.rstd = at::empty({from.rows(), from.heads}, packed.options().dtype(at::kFloat));
    return made;
  };
  std::array<NormResult, 2> out{fresh(q, true), fresh(k, false)};
  PeCudaSplit split = split_of(q.from, rotation);
  split.eps = static_cast<float>(eps);
  split.q = part_of(q.from, out[0].y, q.weight, out[0].rstd, {});
  split.k = part_of(k.from, out[1].y, k.weight, out[1].rstd, {});
  require_launched(plugin->split_heads(packed.data_ptr(), &split, is_bf16(packed), stream_of(plugin, packed)),
                   "split_heads");
  return out;
}

void split_heads_backward(const SplitGradient& q, const SplitGradient& k, const SplitGradient& v,
                          const Rotation& rotation, const Tensor& dpacked) {
  const Tensor& packed = q.from.packed;
  if (q.from.width > kWidestRotatedHead) return kPlainOperations.split_heads_backward(q, k, v, {}, dpacked);
  const PeCudaTable* plugin = plugin_for(packed);
  const auto rows_together = [&](const Tensor& dout) {
    if (!dout.defined()) return dout;
    const Tensor typed = dout.to(packed.scalar_type());
    return typed.stride(3) == 1 ? typed : typed.contiguous();
  };
  const Tensor dq = rows_together(q.dout), dk = rows_together(k.dout), dv = rows_together(v.dout);
  const bool sums = q.weight_gradient.defined() || k.weight_gradient.defined();
  const Tensor scratch =
      sums ? at::empty({pe_cuda_head_scratch(q.from.rows(), q.from.width)}, packed.options().dtype(at::kFloat))
           : Tensor();
  PeCudaSplit split = split_of(q.from, rotation);
  split.q = part_of(q.from, dq, q.weight, q.rstd, q.weight_gradient);
  split.k = part_of(k.from, dk, k.weight, k.rstd, k.weight_gradient);
  split.v = part_of(v.from, dv, {}, {}, {});
  require_launched(plugin->split_heads_backward(packed.data_ptr(), dpacked.data_ptr(), &split, floats_of(scratch),
                                                is_bf16(packed), stream_of(plugin, packed)),
                   "split_heads_backward");
}

Tensor rotate(const Tensor& x, const Rotation& rotation, double sign) {
  const PeCudaTable* plugin = plugin_for(x);
  const Tensor from = x.stride(3) == 1 ? x : x.contiguous();
  Tensor out = at::empty_like(from);
  const Tensor& cos = rotation.cos;
  PeCudaRotation of{
      .turn = rotation_of(rotation), .batch = x.size(0), .heads = x.size(1), .length = x.size(2), .width = x.size(3)};
  if (cos.dim() == 4) {
    of.turn.by_sequence = cos.size(0) > 1 ? cos.stride(0) : 0;
    of.groups = cos.size(1);
    of.by_group = cos.stride(1);
  }
  of.from = {from.stride(0), from.stride(1), from.stride(2)};
  of.to = {out.stride(0), out.stride(1), out.stride(2)};
  of.sign = static_cast<float>(sign);
  require_launched(plugin->rotate(from.data_ptr(), out.data_ptr(), &of, is_bf16(x), stream_of(plugin, x)), "rotate");
  return out;
}

Tensor gather_gradient(const Tensor& g, const Tensor& index, std::int64_t positions) {
  const PeCudaTable* plugin = plugin_for(g);
  const Tensor values = g.contiguous(), keys = index.contiguous();
  std::vector<std::int64_t> shape = g.sizes().vec();
  const std::int64_t count = shape.back(), rows = g.numel() / count;
  shape.back() = positions;
  Tensor to = at::empty(shape, g.options());
  require_launched(plugin->gather_gradient(values.data_ptr(), keys.data_ptr<std::int64_t>(), to.data_ptr(), rows, count,
                                           positions, is_bf16(g), stream_of(plugin, g)),
                   "gather_gradient");
  return to;
}

Tensor dropout_mask(const Tensor& like, double p, const std::vector<std::uint64_t>& keys) {
  const PeCudaTable* plugin = plugin_for(like);
  Tensor mask = at::empty(like.sizes(), like.options());
  Tensor host = at::empty({std::ssize(keys)}, at::TensorOptions(at::kLong));
  std::memcpy(host.data_ptr(), keys.data(), keys.size() * sizeof keys[0]);
  const Tensor there = host.to(like.device());
  require_launched(plugin->dropout_mask(mask.data_ptr(), there.data_ptr<std::int64_t>(), std::ssize(keys),
                                        mask.numel() / std::ssize(keys), p, is_bf16(like), stream_of(plugin, like)),
                   "dropout_mask");
  return mask;
}

Tensor swiglu(const Tensor& gate_up) {
  const PeCudaTable* plugin = plugin_for(gate_up);
  const std::int64_t rows = gate_up.size(0), inner = gate_up.size(1) / 2;
  Tensor a = at::empty({rows, inner}, gate_up.options());
  require_launched(
      plugin->swiglu(gate_up.data_ptr(), a.data_ptr(), rows, inner, is_bf16(gate_up), stream_of(plugin, gate_up)),
      "swiglu");
  return a;
}

Tensor swiglu_backward(const Tensor& da, const Tensor& gate_up) {
  const PeCudaTable* plugin = plugin_for(gate_up);
  const std::int64_t rows = gate_up.size(0), inner = gate_up.size(1) / 2;
  Tensor d = at::empty_like(gate_up);
  const Tensor g = da.to(gate_up.scalar_type()).contiguous();
  require_launched(plugin->swiglu_backward(g.data_ptr(), gate_up.data_ptr(), d.data_ptr(), rows, inner,
                                           is_bf16(gate_up), stream_of(plugin, gate_up)),
                   "swiglu_backward");
  return d;
}

void add_embedding_gradient(const Tensor& g, const Tensor& ids, const Tensor& gradient, double scale) {
  if (gradient.scalar_type() != at::kFloat) return kPlainOperations.add_embedding_gradient(g, ids, gradient, scale);
  const PeCudaTable* plugin = plugin_for(g);
  const Tensor values = g.contiguous(), index = ids.reshape({-1}).contiguous();
  const auto [sorted, order] = at::sort(index, /*stable=*/true, 0, false);
  const std::int64_t count = index.numel(), width = gradient.size(1);
  const Tensor scratch = at::empty({pe_cuda_embedding_scratch(count, width)}, gradient.options());
  require_launched(
      plugin->embedding_gradient(sorted.data_ptr<std::int64_t>(), order.data_ptr<std::int64_t>(), values.data_ptr(),
                                 is_bf16(values), gradient.data_ptr<float>(), scratch.data_ptr<float>(), count, width,
                                 static_cast<float>(scale), stream_of(plugin, values)),
      "embedding_gradient");
}

void cross_entropy(Tensor& logits, const Tensor& targets, const Tensor& losses, bool gradient,
                   const LogitShape& shape) {
  const PeCudaTable* plugin = plugin_for(logits);
  const PeCudaLogits shaped{static_cast<float>(shape.softcap), static_cast<float>(shape.z_loss),
                            static_cast<float>(shape.scale)};
  require_launched(plugin->cross_entropy(logits.data_ptr(), is_bf16(logits), targets.data_ptr<std::int64_t>(),
                                         losses.data_ptr<float>(), logits.size(0), logits.size(1), gradient, &shaped,
                                         stream_of(plugin, logits)),
                   "cross_entropy");
}

void adam(const AdamBuffers& buffers, const AdamRates& rates) {
  const PeCudaTable* plugin = plugin_for(buffers.values);
  const auto t = static_cast<double>(rates.step);
  PeCudaAdam with;
  with.values = buffers.values.data_ptr<float>();
  with.gradients = buffers.gradients.data_ptr<float>();
  with.first = buffers.first.data_ptr<float>();
  with.second = buffers.second.data_ptr<float>();
  with.shadow = buffers.shadow.defined() ? buffers.shadow.data_ptr() : nullptr;
  with.count = buffers.values.numel();
  with.lr = static_cast<float>(rates.lr);
  with.beta1 = static_cast<float>(rates.beta1);
  with.beta2 = static_cast<float>(rates.beta2);
  with.decay = static_cast<float>(rates.decay);
  with.eps = static_cast<float>(rates.eps);
  with.correction1 = static_cast<float>(1 - std::pow(rates.beta1, t));
  with.correction2 = static_cast<float>(1 - std::pow(rates.beta2, t));
  with.divisor = static_cast<float>(rates.divisor);
  with.verdict = rates.verdict.defined() ? rates.verdict.data_ptr<float>() : nullptr;
  with.coupled = rates.coupled;
  require_launched(plugin->adam(&with, stream_of(plugin, buffers.values)), "adam");
}

Tensor unread_sum_of_squares(const Tensor& x) { return at::linalg_vector_norm(x, 2.0).to(at::kDouble).square(); }

double sum_of_squares(const Tensor& x) { return unread_sum_of_squares(x).item<double>(); }

}  // namespace

const Operations kPluginOperations = {.name = "plug-in",
                                      .rotates_heads = true,
                                      .takes_low_precision_logits = true,
                                      .rms_norm = rms_norm,
                                      .rms_norm_backward = rms_norm_backward,
                                      .split_heads = split_heads,
                                      .split_heads_backward = split_heads_backward,
                                      .rotate = rotate,
                                      .gather_gradient = gather_gradient,
                                      .dropout_mask = dropout_mask,
                                      .swiglu = swiglu,
                                      .swiglu_backward = swiglu_backward,
                                      .add_embedding_gradient = add_embedding_gradient,
                                      .cross_entropy = cross_entropy,
                                      .sum_of_squares = sum_of_squares,
                                      .unread_sum_of_squares = unread_sum_of_squares,
                                      .adam = adam};

}  // namespace pe::kernels
