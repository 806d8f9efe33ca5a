#include <vector>

#include "model/node.h"

namespace pe::model {
namespace {

class FeedForwardNode : public Function<FeedForwardNode> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x, const Weight& norm, const Weight& gate_up,
                               const Weight& down, double eps, bool summed) {
    const NormResult normed = rms_norm_of(x, norm.value, eps);
    const Tensor inner = product(rows_of(normed.y), gate_up.value.t());
    const Tensor a = operations_for(inner).swiglu(inner);
    const Tensor out = summed ? kernels::sum_with_product(rows_of(x), a, down.value.t()) : product(a, down.value.t());
    if (context != nullptr) {
      context->set_materialize_grads(false);
      context->save_for_backward({x, normed.rstd, normed.y, inner, a});
      context->saved_data["weights"] = std::vector<Tensor>{norm.value, gate_up.value, down.value};
      context->saved_data["norm_gradient"] = norm.gradient;
      context->saved_data["gate_up_gradient"] = gate_up.gradient;
      context->saved_data["down_gradient"] = down.gradient;
      context->saved_data["summed"] = summed;
    }
    if (summed) return {out.view(x.sizes())};
    return {out.view(x.sizes()), x};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const auto weights = data["weights"].toTensorVector();
    const bool summed = data["summed"].toBool();
    const Tensor residual = summed ? gradients[0] : gradients[1];
    if (!gradients[0].defined()) return {residual, {}, {}, {}, {}, {}};  // y was never read
    const Tensor g = rows_of(gradients[0]);
    add_product(data["down_gradient"].toTensor(), g, saved[4]);
    const Tensor dinner = operations_for(saved[3]).swiglu_backward(product(g, weights[2]), saved[3]);
    add_product(data["gate_up_gradient"].toTensor(), dinner, rows_of(saved[2]));
    const Tensor dnormed = product(dinner, weights[1]).view(saved[0].sizes());
    const Weight norm{weights[0], data["norm_gradient"].toTensor()};
    return {rms_norm_gradient(dnormed, saved[0], norm, saved[1], residual), {}, {}, {}, {}, {}};
  }
};

}  // namespace

Tensor feed_forward(const Tensor& x, const Weight& norm, const Weight& gate_up, const Weight& down, double eps) {
  const variable_list out = at::GradMode::is_enabled()
                                ? FeedForwardNode::apply(x, norm, gate_up, down, eps, true)
                                : FeedForwardNode::forward(nullptr, x, norm, gate_up, down, eps, true);
  return out[0];
}

FeedForwardParts feed_forward_parts(const Tensor& x, const Weight& norm, const Weight& gate_up, const Weight& down,
                                    double eps) {
  const variable_list out = at::GradMode::is_enabled()
                                ? FeedForwardNode::apply(x, norm, gate_up, down, eps, false)
                                : FeedForwardNode::forward(nullptr, x, norm, gate_up, down, eps, false);
  return {out[0], out[1]};
}

}  // namespace pe::model
