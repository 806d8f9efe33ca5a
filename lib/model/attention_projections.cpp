#include <ATen/ops/empty_like.h>

#include <array>
#include <vector>

#include "model/node.h"

namespace pe::model {
namespace {

using kernels::PackedHeads;

/// q, k and v side by side in a projection.
struct PackedProjections {
  PackedHeads q, k, v;

  PackedProjections(const Tensor& projected, std::int64_t batch, const AttentionShape& shape) {
    const std::int64_t d = shape.head_width;
    q = {projected, 0, batch, shape.heads, d};
    k = {projected, shape.heads * d, batch, shape.kv_heads, d};
    v = {projected, (shape.heads + shape.kv_heads) * d, batch, shape.kv_heads, d};
  }
};

/// Heads without a copy: [B, heads, T, d_h], strided.
Tensor in_place(const PackedHeads& heads) {
  const at::AutoDispatchBelowADInplaceOrView
      no_view_tracking;  // an output of the node, and no view that autograd follows
  return heads.columns_of(heads.packed).view({heads.batch, heads.length(), heads.heads, heads.width}).transpose(1, 2);
}

/// Whether a norm is over all heads of a token together.
bool over_all_heads(const Tensor& weight, std::int64_t head_width) {
  return weight.defined() && weight.numel() != head_width;
}

NormResult norm_over_all_heads(const PackedHeads& from, const Tensor& weight, double eps) {
  const NormResult normed = rms_norm_of(from.columns_of(from.packed).contiguous(), weight, eps);
  return {
      normed.y.view({from.batch, from.length(), from.heads, from.width}).transpose(1, 2).contiguous(), normed.rstd, {}};
}

/// `rotation` only where rotates_with_heads() says so.
std::array<NormResult, 2> split(const PackedProjections& heads, const Tensor& query_norm, const Tensor& key_norm,
                                double eps, const Rotation& rotation) {
  if (!over_all_heads(query_norm, heads.q.width) && !over_all_heads(key_norm, heads.k.width)) {
    return operations_for(heads.q.packed).split_heads({heads.q, query_norm}, {heads.k, key_norm}, eps, rotation);
  }
  return {norm_over_all_heads(heads.q, query_norm, eps), norm_over_all_heads(heads.k, key_norm, eps)};
}

struct HeadGradient {
  Tensor dout;
  Weight norm;
  Tensor rstd;
};

void norm_over_all_heads_gradient(const HeadGradient& of, const PackedHeads& from, const Tensor& dpacked) {
  const Tensor rows = of.dout.transpose(1, 2).reshape({from.rows(), from.heads * from.width});
  from.columns_of(dpacked).copy_(rms_norm_gradient(rows, from.columns_of(from.packed).contiguous(), of.norm, of.rstd));
}

void split_gradient(const HeadGradient& q, const HeadGradient& k, const Tensor& dv, const PackedProjections& heads,
                    const Rotation& rotation, const Tensor& dpacked) {
  const auto by_kernel = [&](const HeadGradient& of, const PackedHeads& from) {
    kernels::SplitGradient made{from, of.dout, of.norm.value, of.rstd, of.norm.gradient};
    if (!over_all_heads(of.norm.value, from.width)) return made;
    if (of.dout.defined()) {
      norm_over_all_heads_gradient(of, from, dpacked);
      made.from.heads = 0;  // done
    }
    made.weight = made.rstd = made.weight_gradient = made.dout = Tensor();
    return made;
  };
  operations_for(heads.q.packed)
      .split_heads_backward(by_kernel(q, heads.q), by_kernel(k, heads.k), {heads.v, dv, {}, {}, {}}, rotation, dpacked);
}

class NormProject : public Function<NormProject> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x, const Weight& norm, const Weight& packed,
                               const Weight& query_norm, const Weight& key_norm, const AttentionShape& shape,
                               const Rotation& rotation) {
    const std::int64_t batch = x.size(0);
    const NormResult normed = rms_norm_of(x, norm.value, shape.eps);
    const Tensor projected = product(rows_of(normed.y), packed.value.t());
    const PackedProjections heads(projected, batch, shape);
    const auto [q, k] = split(heads, query_norm.value, key_norm.value, shape.eps, rotation);
    const Tensor v = in_place(heads.v);
    if (context != nullptr) {
      context->set_materialize_grads(false);
      context->save_for_backward({x, normed.rstd, normed.y, projected, q.rstd, k.rstd});
      // Weights are saved data, not saved variables, because the optimizer writes them in place after backward.
      auto& data = context->saved_data;
      data["weights"] = std::vector<Tensor>{norm.value, packed.value};
      data["norm_gradient"] = norm.gradient;
      data["packed_gradient"] = packed.gradient;
      data["query_norm"] = query_norm.value;
      data["query_gradient"] = query_norm.gradient;
      data["key_norm"] = key_norm.value;
      data["key_gradient"] = key_norm.gradient;
      data["shape"] = std::vector<std::int64_t>{shape.heads, shape.kv_heads, shape.head_width};
      data["eps"] = shape.eps;
      data["rotation"] = std::vector<Tensor>{rotation.cos, rotation.sin};
      data["rotation_half"] = rotation.half;
    }
    return {normed.y, q.y, k.y, v, x};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const auto weights = data["weights"].toTensorVector();
    const auto sizes = data["shape"].toIntVector();
    const AttentionShape shape{sizes[0], sizes[1], sizes[2], data["eps"].toDouble()};
    const Weight norm{weights[0], data["norm_gradient"].toTensor()};
    const Weight query_norm{data["query_norm"].toTensor(), data["query_gradient"].toTensor()};
    const Weight key_norm{data["key_norm"].toTensor(), data["key_gradient"].toTensor()};
    const Tensor &x = saved[0], &normed = saved[2], &projected = saved[3];
    const auto tables = data["rotation"].toTensorVector();
    const Rotation rotation{tables[0], tables[1], data["rotation_half"].toBool()};
    const Tensor dprojected = at::empty_like(projected);
    const PackedProjections heads(projected, x.size(0), shape);
    split_gradient({gradients[1], query_norm, saved[4]}, {gradients[2], key_norm, saved[5]}, gradients[3], heads,
                   rotation, dprojected);
    add_product(data["packed_gradient"].toTensor(), dprojected, rows_of(normed));
    Tensor dnormed = product(dprojected, weights[1]).view(x.sizes());
    if (gradients[0].defined()) dnormed.add_(gradients[0]);
    return {rms_norm_gradient(dnormed, x, norm, saved[1], /*add=*/gradients[4]), {}, {}, {}, {}, {}, {}};
  }
};

Tensor merge_heads(const Tensor& heads) {
  return heads.transpose(1, 2).reshape({heads.size(0) * heads.size(2), heads.size(1) * heads.size(3)});
}

Tensor project_forward(const Tensor& x, const Tensor& merged, const Tensor& weight) {
  return kernels::sum_with_product(rows_of(x), merged, weight.t()).view(x.sizes());
}

class ProjectResidual : public Function<ProjectResidual> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& heads, const Weight& output) {
    const Tensor merged = merge_heads(heads);
    context->save_for_backward({merged});
    context->saved_data["weight"] = output.value;
    context->saved_data["gradient"] = output.gradient;
    context->saved_data["shape"] = heads.sizes().vec();
    return project_forward(x, merged, output.value);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto shape = context->saved_data["shape"].toIntVector();
    const Tensor g = rows_of(gradients[0]);
    add_product(context->saved_data["gradient"].toTensor(), g, context->get_saved_variables()[0]);
    const Tensor dheads = product(g, context->saved_data["weight"].toTensor())
                              .view({shape[0], shape[2], shape[1], shape[3]})
                              .transpose(1, 2);
    return {gradients[0], dheads, {}};
  }
};

}  // namespace

bool rotates_with_heads(const Tensor& x, const Weight& query_norm, const Weight& key_norm,
                        const AttentionShape& shape) {
  return operations_for(x).rotates_heads && shape.head_width <= kernels::kWidestRotatedHead &&
         !over_all_heads(query_norm.value, shape.head_width) && !over_all_heads(key_norm.value, shape.head_width);
}

ProjectedHeads norm_project(const Tensor& x, const Weight& norm, const Weight& packed, const Weight& query_norm,
                            const Weight& key_norm, const AttentionShape& shape, const Rotation& rotation) {
  const variable_list out = at::GradMode::is_enabled()
                                ? NormProject::apply(x, norm, packed, query_norm, key_norm, shape, rotation)
                                : NormProject::forward(nullptr, x, norm, packed, query_norm, key_norm, shape, rotation);
  return {out[0], out[1], out[2], out[3], out[4]};
}

Tensor project_residual(const Tensor& x, const Tensor& heads, const Weight& output) {
  if (!at::GradMode::is_enabled()) return project_forward(x, merge_heads(heads), output.value);
  return ProjectResidual::apply(x, heads, output);
}

}  // namespace pe::model
