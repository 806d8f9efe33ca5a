// By the plug-in's kernels (cuda/plugin.h), on a GPU's current stream.
#include <ATen/ops/argsort.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cmath>

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

PeCudaHeads layout_of(const Tensor& heads, const Tensor& packed) {
  return {heads.size(2), heads.size(1), heads.size(3), packed.size(1), heads.stride(0), heads.stride(1), heads.stride(2)};
}

/// Of no pairs where nothing rotates.
PeCudaTurn rotation_of(const Rotation& rotation) {
  if (!rotation.cos.defined()) return {};
  const Tensor& cos = rotation.cos;
  return {cos.data_ptr<float>(), rotation.sin.data_ptr<float>(), cos.dim() == 3 && cos.size(0) > 1 ? cos.stride(0) : 0,
          cos.stride(-2), cos.size(-1), rotation.half};
}

const void* column_of(const Tensor& packed, std::int64_t column) {
  return static_cast<const char*>(packed.data_ptr()) + column * static_cast<std::int64_t>(packed.element_size());
}

Normed rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& delta) {
  const PeCudaTable* plugin = plugin_for(x);
  const std::int64_t width = x.size(-1), rows = x.numel() / width;
  const Tensor in = x.contiguous(), more = delta.defined() ? delta.to(x.scalar_type()).contiguous() : delta;
  const Tensor sum = more.defined() ? at::empty_like(in) : in;
  Tensor y = at::empty_like(in), rstd = at::empty({rows}, in.options().dtype(at::kFloat));
  require_launched(plugin->rms_norm(in.data_ptr(), bytes_of(more), weight.data_ptr<float>(), sum.data_ptr(), y.data_ptr(),
                                    rstd.data_ptr<float>(), rows, width, static_cast<float>(eps), is_bf16(x),
                                    stream_of(plugin, x)),
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
  require_launched(plugin->rms_norm_backward(g.data_ptr(), in.data_ptr(), weight.data_ptr<float>(), rstd.data_ptr<float>(),
                                             bytes_of(residual), dx.data_ptr(), floats_of(weight_gradient), floats_of(scratch),
                                             rows, width, is_bf16(x), stream_of(plugin, x)),
                   "rms_norm_backward");
  return dx;
}

Normed split_heads(const PackedHeads& from, const Tensor& weight, double eps, const Rotation& rotation) {
  const Tensor& packed = from.packed;
  const PeCudaTable* plugin = plugin_for(packed);
  const Tensor out = at::empty({from.batch, from.heads, from.length(), from.width}, packed.options());
  const Tensor rstd = weight.defined() ? at::empty({from.rows(), from.heads}, packed.options().dtype(at::kFloat)) : Tensor();
  const PeCudaHeads layout = layout_of(out, packed);
  const PeCudaTurn turn = rotation_of(rotation);
  require_launched(plugin->split_heads(column_of(packed, from.column), floats_of(weight), static_cast<float>(eps), &turn,
                                       out.data_ptr(), floats_of(rstd), &layout, from.rows(), is_bf16(packed),
                                       stream_of(plugin, packed)),
                   "split_heads");
  return {out, rstd, {}};
}

void split_heads_backward(const Tensor& dout, const PackedHeads& from, const Tensor& weight, const Tensor& rstd,
                          const Tensor& weight_gradient, const Rotation& rotation, const Tensor& dpacked) {
  const Tensor& packed = from.packed;
  const PeCudaTable* plugin = plugin_for(packed);
  const Tensor typed = dout.to(packed.scalar_type()), g = typed.stride(3) == 1 ? typed : typed.contiguous();
  const PeCudaHeads layout = layout_of(g, packed);
  const PeCudaTurn turn = rotation_of(rotation);
  const Tensor scratch = weight_gradient.defined() ? scratch_for(from.rows() * from.heads, from.width, packed) : Tensor();
  require_launched(plugin->split_heads_backward(g.data_ptr(), column_of(packed, from.column), floats_of(weight), floats_of(rstd),
                                                &turn, const_cast<void*>(column_of(dpacked, from.column)),
                                                floats_of(weight_gradient), floats_of(scratch), &layout, from.rows(),
                                                is_bf16(packed), stream_of(plugin, packed)),
                   "split_heads_backward");
}

Tensor swiglu(const Tensor& gate_up) {
  const PeCudaTable* plugin = plugin_for(gate_up);
  const std::int64_t rows = gate_up.size(0), inner = gate_up.size(1) / 2;
  Tensor a = at::empty({rows, inner}, gate_up.options());
  require_launched(plugin->swiglu(gate_up.data_ptr(), a.data_ptr(), rows, inner, is_bf16(gate_up), stream_of(plugin, gate_up)),
                   "swiglu");
  return a;
}

Tensor swiglu_backward(const Tensor& da, const Tensor& gate_up) {
  const PeCudaTable* plugin = plugin_for(gate_up);
  const std::int64_t rows = gate_up.size(0), inner = gate_up.size(1) / 2;
  Tensor d = at::empty_like(gate_up);
  const Tensor g = da.to(gate_up.scalar_type()).contiguous();
  require_launched(plugin->swiglu_backward(g.data_ptr(), gate_up.data_ptr(), d.data_ptr(), rows, inner, is_bf16(gate_up),
                                           stream_of(plugin, gate_up)),
                   "swiglu_backward");
  return d;
}

void add_embedding_gradient(const Tensor& g, const Tensor& ids, const Tensor& gradient, double scale) {
  if (gradient.scalar_type() != at::kFloat) return kPlainOperations.add_embedding_gradient(g, ids, gradient, scale);
  const PeCudaTable* plugin = plugin_for(g);
  const Tensor values = g.contiguous(), index = ids.reshape({-1}).contiguous();
  const Tensor order = at::argsort(index, /*stable=*/true, 0, false);
  require_launched(plugin->embedding_gradient(index.data_ptr<std::int64_t>(), order.data_ptr<std::int64_t>(), values.data_ptr(),
                                              is_bf16(values), gradient.data_ptr<float>(), index.numel(), gradient.size(1),
                                              static_cast<float>(scale), stream_of(plugin, values)),
                   "embedding_gradient");
}

void cross_entropy(Tensor& logits, const Tensor& targets, const Tensor& losses, bool gradient) {
  const PeCudaTable* plugin = plugin_for(logits);
  require_launched(plugin->cross_entropy(logits.data_ptr(), is_bf16(logits), targets.data_ptr<std::int64_t>(),
                                         losses.data_ptr<float>(), logits.size(0), logits.size(1), gradient,
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
  with.coupled = rates.coupled;
  require_launched(plugin->adam(&with, stream_of(plugin, buffers.values)), "adam");
}

}  // namespace

const Operations kPluginOperations = {.name = "plug-in",
                                      .rotates_heads = true,
                                      .takes_low_precision_logits = true,
                                      .rms_norm = rms_norm,
                                      .rms_norm_backward = rms_norm_backward,
                                      .split_heads = split_heads,
                                      .split_heads_backward = split_heads_backward,
                                      .swiglu = swiglu,
                                      .swiglu_backward = swiglu_backward,
                                      .add_embedding_gradient = add_embedding_gradient,
                                      .cross_entropy = cross_entropy,
                                      .adam = adam};

}  // namespace pe::kernels
