// The route of causal softmax with or without a bias by distance, by kernels that hold a few rows of logits at a time and
// give the gradients by q, k, v and the table in one pass more.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "encodings/attend_rows.h"
#include "kernels/forms.h"

namespace pe::encodings {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

kernels::HeadStrides strides_of(const Tensor& heads) { return {heads.stride(0), heads.stride(1), heads.stride(2)}; }

/// The kernels read a head's row in one go.
Tensor with_rows(const Tensor& heads) { return heads.stride(3) == 1 ? heads : heads.contiguous(); }

float* scratch(std::int64_t floats) {
  thread_local std::vector<float> held;
  if (held.size() < static_cast<std::size_t>(floats)) held.resize(static_cast<std::size_t>(floats));
  return held.data();
}

/// What has no gradient.
struct Fixed {
  Tensor starts;   // or undefined
  double scale = 1;
};

struct Given {
  Tensor q, k, v, table;   // the last may be undefined
  Fixed fixed;

  Given(at::TensorList tensors, Fixed fixed)
      : q(tensors[0]), k(tensors[1]), v(tensors[2]), table(tensors.size() > 3 ? tensors[3] : Tensor()), fixed(std::move(fixed)) {}
};

kernels::AttentionShape shape_of(const Given& in) {
  kernels::AttentionShape shape{.batch = in.q.size(0), .heads = in.q.size(1), .groups = in.k.size(1), .queries = in.q.size(2),
                                .keys = in.k.size(2), .width = in.q.size(3), .value_width = in.v.size(3)};
  shape.q = strides_of(in.q);
  shape.k = strides_of(in.k);
  shape.v = strides_of(in.v);
  shape.scale = static_cast<float>(in.fixed.scale);
  if (in.table.defined()) shape.table = in.table.data_ptr<float>();
  if (in.fixed.starts.defined()) {
    shape.starts = in.fixed.starts.data_ptr<std::int64_t>();
    shape.starts_batch = in.fixed.starts.dim() == 2 && in.fixed.starts.size(0) > 1 ? in.fixed.starts.stride(0) : 0;
  }
  return shape;
}

class CausalFunction : public torch::autograd::Function<CausalFunction> {
 public:
  /// @param tensors q, k, v and, where there is one, the table.
  static variable_list forward(AutogradContext* context, at::TensorList tensors, const Fixed& fixed) {
    variable_list plain{with_rows(tensors[0]), with_rows(tensors[1]), with_rows(tensors[2])};
    if (tensors.size() > 3) plain.push_back(tensors[3].contiguous());
    const Given in(plain, {fixed.starts.defined() ? fixed.starts.contiguous() : fixed.starts, fixed.scale});
    kernels::AttentionShape shape = shape_of(in);
    // A token's heads side by side, as the output projection reads them.
    const Tensor out = at::empty({shape.batch, shape.queries, shape.heads, shape.value_width}, in.v.options()).transpose(1, 2);
    const Tensor lse = at::empty({shape.batch, shape.heads, shape.queries}, in.v.options());
    shape.out = strides_of(out);
    const auto kernel = kernels::cpu_for(in.q)->attention;
    const float *pq = in.q.data_ptr<float>(), *pk = in.k.data_ptr<float>(), *pv = in.v.data_ptr<float>();
    float *to = out.data_ptr<float>(), *sums = lse.data_ptr<float>();
    at::parallel_for(0, shape.batch * shape.heads * kernels::attention_blocks(shape.queries), 1,
                     [&](std::int64_t first, std::int64_t last) {
                       kernel(shape, pq, pk, pv, to, sums, first, last, scratch(kernels::attention_scratch(shape)));
                     });
    plain.insert(plain.end(), {out, lse});
    context->save_for_backward(plain);
    context->saved_data["starts"] = in.fixed.starts;
    context->saved_data["scale"] = in.fixed.scale;
    context->set_materialize_grads(false);
    return {out, lse};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    variable_list saved = context->get_saved_variables();
    const Tensor lse = saved.back(), out = saved[saved.size() - 2];
    saved.resize(saved.size() - 2);
    const Given in(saved, {context->saved_data["starts"].toTensor(), context->saved_data["scale"].toDouble()});
    const Tensor dout = gradients[0].defined() ? with_rows(gradients[0]) : at::zeros_like(out);
    const Tensor dlse = gradients[1].defined() ? gradients[1].contiguous() : gradients[1];
    kernels::AttentionShape shape = shape_of(in);
    shape.out = strides_of(out);
    shape.dout = strides_of(dout);
    const auto made = [&](const Tensor& like) { return at::empty(like.sizes(), like.options()); };
    const Tensor dq = made(in.q), dk = made(in.k), dv = made(in.v);
    kernels::AttentionGradients to{dq.data_ptr<float>(), dk.data_ptr<float>(), dv.data_ptr<float>()};
    Tensor tables;
    if (in.table.defined() && context->needs_input_grad(3)) {
      tables = at::empty({shape.batch, shape.heads, shape.keys}, in.table.options());
      to.table = tables.data_ptr<float>();
    }
    const auto kernel = kernels::cpu_for(in.q)->attention_backward;
    const float *pq = in.q.data_ptr<float>(), *pk = in.k.data_ptr<float>(), *pv = in.v.data_ptr<float>();
    const float *po = out.data_ptr<float>(), *pg = dout.data_ptr<float>(), *sums = lse.data_ptr<float>();
    const float* pl = dlse.defined() ? dlse.data_ptr<float>() : nullptr;
    at::parallel_for(0, shape.batch * shape.groups, 1, [&](std::int64_t first, std::int64_t last) {
      kernel(shape, pq, pk, pv, po, pg, sums, pl, to, first, last, scratch(kernels::attention_backward_scratch(shape)));
    });
    variable_list result{dq, dk, dv};
    if (in.table.defined()) result.push_back(tables.defined() ? tables.sum(0) : Tensor());
    result.emplace_back();   // what is fixed
    return result;
  }
};

}  // namespace

bool has_causal_kernel(at::Device device, at::ScalarType type, BiasKind bias) {
  return device.is_cpu() && kernels::cpu_for(device, type) != nullptr;
}

Tensor attend_causal(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& table, const Tensor& starts, double scale,
                     const Tensor& sink) {
  variable_list tensors{q, k, v};
  if (table.defined()) tensors.push_back(table);
  const variable_list made = CausalFunction::apply(at::TensorList(tensors), Fixed{starts, scale});
  if (!sink.defined()) return made[0];
  const Tensor logit = sink.to(made[1].scalar_type()).view({1, -1, 1});
  return made[0] * at::exp(made[1] - at::logaddexp(made[1], logit)).unsqueeze(-1);
}

}  // namespace pe::encodings
