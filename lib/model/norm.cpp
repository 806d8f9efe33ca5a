#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

#include "model/node.h"

namespace pe::model {
namespace {

class RmsNorm : public Function<RmsNorm> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Weight& weight, double eps) {
    const NormResult normed = rms_norm_of(x, weight.value, eps);
    context->save_for_backward({x, normed.rstd, weight.value});
    context->saved_data["gradient"] = weight.gradient;
    return normed.y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Weight weight{saved[2], context->saved_data["gradient"].toTensor()};
    return {rms_norm_gradient(gradients[0], saved[0], weight, saved[1]), {}, {}};
  }
};

class AddRmsNorm : public Function<AddRmsNorm> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& delta, const Weight& weight,
                        double eps) {
    const NormResult normed = rms_norm_of(x, weight.value, eps, delta);
    context->save_for_backward({normed.input, normed.rstd, weight.value});
    context->saved_data["gradient"] = weight.gradient;
    return normed.y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Weight weight{saved[2], context->saved_data["gradient"].toTensor()};
    const Tensor d = rms_norm_gradient(gradients[0], saved[0], weight, saved[1]);
    return {d, d, {}, {}};
  }
};

class LayerNorm : public Function<LayerNorm> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Weight& weight, const Weight& bias,
                        double eps) {
    const Tensor values = x.to(kernels::at_least_fp32(x));
    const std::int64_t width = x.size(-1);
    auto [y, mean, rstd] = at::native_layer_norm(values, width, weight.value, bias.value, eps);
    if (context != nullptr) {
      context->save_for_backward({values, mean, rstd});
      context->saved_data["weight"] = weight.value;
      context->saved_data["bias"] = bias.value;
      context->saved_data["weight_gradient"] = weight.gradient;
      context->saved_data["bias_gradient"] = bias.gradient;
      context->saved_data["type"] = x.scalar_type();
    }
    return y.to(x.scalar_type());
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const Tensor weight_gradient = data["weight_gradient"].toTensor(), bias_gradient = data["bias_gradient"].toTensor();
    auto [dx, dweight, dbias] = at::native_layer_norm_backward(
        gradients[0].to(saved[0].scalar_type()), saved[0], saved[0].size(-1), saved[1], saved[2],
        data["weight"].toTensor(), data["bias"].toTensor(), {true, weight_gradient.defined(), bias_gradient.defined()});
    if (weight_gradient.defined()) weight_gradient.add_(dweight);
    if (bias_gradient.defined()) bias_gradient.add_(dbias);
    return {dx.to(data["type"].toScalarType()), {}, {}, {}};
  }
};

}  // namespace

Tensor rms_norm(const Tensor& x, const Weight& weight, double eps) {
  if (!at::GradMode::is_enabled()) return rms_norm_of(x, weight.value, eps).y;
  return RmsNorm::apply(x, weight, eps);
}

Tensor add_rms_norm(const Tensor& x, const Tensor& delta, const Weight& weight, double eps) {
  if (!at::GradMode::is_enabled()) return rms_norm_of(x, weight.value, eps, delta).y;
  return AddRmsNorm::apply(x, delta, weight, eps);
}

Tensor layer_norm(const Tensor& x, const Weight& weight, const Weight& bias, double eps) {
  if (!at::GradMode::is_enabled()) return LayerNorm::forward(nullptr, x, weight, bias, eps);
  return LayerNorm::apply(x, weight, bias, eps);
}

}  // namespace pe::model
