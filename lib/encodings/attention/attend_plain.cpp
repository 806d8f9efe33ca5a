#include "encodings/attention/attend_plain.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "encodings/attention/attend_rows.h"
#include "kernels/dispatch.h"
#include "support/error.h"
#include "support/explain.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A token's heads side by side, as the output projection reads them.
Tensor empty_like_projected(const Tensor& q) {
  return at::empty({q.size(0), q.size(2), q.size(1), q.size(3)}, q.options()).transpose(1, 2);
}

bool lies_like_projected(const Tensor& heads) { return heads.transpose(1, 2).is_contiguous(); }

PeCudaStrides steps_of(const Tensor& heads) { return {heads.stride(0), heads.stride(1), heads.stride(2)}; }

/// The gradients of all heads of a token follow each other, as its packed projection.
struct PackedGradients {
  PeCudaStrides strides;
  std::int64_t heads, groups, width;

  PackedGradients(const Tensor& q, const Tensor& k) : heads(q.size(1)), groups(k.size(1)), width(q.size(3)) {
    const std::int64_t row = (heads + 2 * groups) * width;
    strides = {q.size(2) * row, width, row};
  }
  /// [B,H,T,d_h], [B,G,T,d_h] and [B,G,T,d_h] of one matrix.
  variable_list make(const Tensor& q) const {
    const Tensor packed = at::empty({q.size(0), q.size(2), heads + 2 * groups, width}, q.options()).transpose(1, 2);
    return {packed.narrow(1, 0, heads), packed.narrow(1, heads, groups), packed.narrow(1, heads + groups, groups)};
  }
};

/// cuDNN reads sixteen bytes at a time, and no row twice.
bool is_readable(const Tensor& heads) {
  bool fits = heads.stride(3) == 1 && reinterpret_cast<std::uintptr_t>(heads.data_ptr()) % 16 == 0;
  for (int i = 0; i < 3; ++i) fits = fits && heads.stride(i) > 0 && heads.stride(i) % 8 == 0;
  return fits;
}

support::Error cudnn_failed(const PeCudaAttention& of, bool backward, const char* why) {
  return support::Error(support::kExitDevice,
                        support::Diagnostic{support::cat("a GPU or its driver failed: cuDNN's attention of [", of.batch,
                                                         ", ", of.heads, ", ", of.queries, ", ", of.width, "]",
                                                         backward ? ", its gradients," : "", " ends with: ", why),
                                            {},
                                            {},
                                            {}});
}

void run_cudnn(const PeCudaAttention& of, bool backward, int plan, PeCudaAttentionMemory at, const Tensor& q) {
  const PeCudaTable* plugin = kernels::plugin_for(q);
  char why[512] = "";
  std::uint64_t bytes = 0;
  if (plugin->cudnn_attention_workspace(&of, backward, plan, &bytes, why, sizeof why) != 0)
    throw cudnn_failed(of, backward, why);
  const Tensor workspace = at::empty({static_cast<std::int64_t>(bytes)}, q.options().dtype(at::kByte));
  at.workspace = workspace.data_ptr();
  if (plugin->cudnn_attention(&of, backward, plan, &at, kernels::stream_of(plugin, q), why, sizeof why) != 0)
    throw cudnn_failed(of, backward, why);
}

class CudnnAttention : public torch::autograd::Function<CudnnAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                        const PeCudaAttentionChoice& by) {
    const Tensor out = empty_like_projected(q),
                 lse = at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
    PeCudaAttentionMemory at{.q = q.data_ptr(), .k = k.data_ptr(), .v = v.data_ptr()};
    at.out = out.data_ptr();
    at.lse = lse.data_ptr<float>();
    run_cudnn(plain_shape({q, k, v, scale}), false, by.forward_plan, at, q);
    context->save_for_backward({q, k, v, out, lse});
    context->saved_data["scale"] = scale;
    context->saved_data["plan"] = static_cast<std::int64_t>(by.backward_plan);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list kept = context->get_saved_variables();
    const Tensor &q = kept[0], &k = kept[1], &v = kept[2], &out = kept[3], &lse = kept[4];
    Tensor dout = gradients[0];
    if (!lies_like_projected(dout) || !is_readable(dout)) dout = empty_like_projected(q).copy_(dout);
    const variable_list found = PackedGradients(q, k).make(q);
    PeCudaAttentionMemory at{.q = q.data_ptr(), .k = k.data_ptr(), .v = v.data_ptr(), .dout = dout.data_ptr()};
    at.out = out.data_ptr();
    at.lse = lse.data_ptr<float>();
    at.dq = found[0].data_ptr();
    at.dk = found[1].data_ptr();
    at.dv = found[2].data_ptr();
    const PeCudaAttention of = plain_shape({q, k, v, context->saved_data["scale"].toDouble()});
    run_cudnn(of, true, static_cast<int>(context->saved_data["plan"].toInt()), at, q);
    return {found[0], found[1], found[2], {}, {}};
  }
};

}  // namespace

PeCudaAttention plain_shape(const PlainHeads& heads) {
  const auto& [q, k, v, scale] = heads;
  const PeCudaStrides gradients = PackedGradients(q, k).strides,
                      out{q.size(2) * q.size(1) * q.size(3), q.size(3), q.size(1) * q.size(3)};
  return {.batch = q.size(0),
          .heads = q.size(1),
          .groups = k.size(1),
          .queries = q.size(2),
          .keys = k.size(2),
          .width = q.size(3),
          .q = steps_of(q),
          .k = steps_of(k),
          .v = steps_of(v),
          .out = out,
          .dout = out,
          .dq = gradients,
          .dk = gradients,
          .dv = gradients,
          .scale = static_cast<float>(scale)};
}

PeCudaAttentionChoice plain_choice(const PlainHeads& heads) {
  const PeCudaTable* plugin = kernels::plugin_for(heads.q);
  const bool fits = plugin != nullptr && plugin->attention_choice != nullptr &&
                    heads.q.scalar_type() == at::kBFloat16 && heads.q.size(2) == heads.k.size(2) &&
                    heads.q.size(3) == heads.v.size(3) && is_readable(heads.q) && is_readable(heads.k) &&
                    is_readable(heads.v);
  if (!fits) return {};
  const PeCudaAttention of = plain_shape(heads);
  return plugin->attention_choice(&of);
}

Tensor attend_plain(const PlainHeads& heads, const PeCudaAttentionChoice& by) {
  const auto& [q, k, v, scale] = heads;
  switch (by.by) {
    case PeCudaAttentionRoute::kCudnn:
      return CudnnAttention::apply(q, k, v, scale, by);
    case PeCudaAttentionRoute::kPlugin:
      return attend_causal(q, k, v, {}, {}, {}, scale, {}).out;
    case PeCudaAttentionRoute::kLibTorch:
      break;
  }
  return fused(q, k, v, std::nullopt, true, scale);
}

}  // namespace pe::encodings
