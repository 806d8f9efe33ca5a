#include "model/node.h"

namespace pe::model {
namespace {

class Linear : public Function<Linear> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Weight& weight, const Weight& bias) {
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = weight.value.size(0);
    const Tensor y = product(rows_of(x), weight.value.t());
    add_bias(y, bias.value);
    if (context != nullptr) {
      context->save_for_backward({x});
      context->saved_data["weight"] = weight.value;
      context->saved_data["weight_gradient"] = weight.gradient;
      context->saved_data["bias_gradient"] = bias.gradient;
    }
    return y.view(shape);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor x = context->get_saved_variables()[0], g = rows_of(gradients[0]);
    auto& data = context->saved_data;
    add_product(data["weight_gradient"].toTensor(), g, rows_of(x));
    add_column_sums(data["bias_gradient"].toTensor(), g);
    return {product(g, data["weight"].toTensor()).view(x.sizes()), {}, {}};
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Weight& weight, const Weight& bias) {
  if (!at::GradMode::is_enabled()) return Linear::forward(nullptr, x, weight, bias);
  return Linear::apply(x, weight, bias);
}

}  // namespace pe::model
