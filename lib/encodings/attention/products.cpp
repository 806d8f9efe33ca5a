#include "encodings/attention/products.h"

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/product.h"

namespace pe::encodings {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// [n,m,k] · [n,k,p] in fp32. The first factor and the incoming gradient are rounded to the second factor's dtype.
class WideProducts : public torch::autograd::Function<WideProducts> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& a, const Tensor& b) {
    const Tensor left = a.to(b.scalar_type());
    context->save_for_backward({left, b});
    context->saved_data["type"] = static_cast<std::int64_t>(a.scalar_type());
    return kernels::wide_products(left, b, at::kFloat);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &left = saved[0], &right = saved[1], above = gradients[0].to(right.scalar_type());
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    variable_list found(2);
    if (context->needs_input_grad(0)) found[0] = kernels::wide_products(above, right.transpose(1, 2), type);
    if (context->needs_input_grad(1))
      found[1] = kernels::wide_products(left.transpose(1, 2), above, right.scalar_type());
    return found;
  }
};

/// [B,G,m,k] · [B,G,k,p]
Tensor times(const Tensor& a, const Tensor& b) {
  if (!is_half(b.scalar_type())) return at::matmul(a, b.to(a.scalar_type()));
  return WideProducts::apply(a.flatten(0, 1), b.flatten(0, 1)).unflatten(0, {b.size(0), b.size(1)});
}

/// The heads of a group as one tall matrix: they follow each other in memory.
Tensor tall(const Tensor& t, std::int64_t groups) {
  return t.size(1) == groups ? t : t.reshape({t.size(0), groups, t.size(1) / groups * t.size(2), t.size(3)});
}
Tensor by_head(const Tensor& t, std::int64_t heads) {
  return t.size(1) == heads ? t : t.reshape({t.size(0), heads, t.size(1) * t.size(2) / heads, t.size(3)});
}

}  // namespace

bool is_half(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

Tensor products(const Tensor& rows, const Tensor& keys) {
  return by_head(times(tall(rows, keys.size(1)), keys.transpose(-1, -2)), rows.size(1));
}

Tensor mix(const Tensor& weights, const Tensor& values) {
  return by_head(times(tall(weights, values.size(1)), values), weights.size(1));
}

Tensor gathered(const Tensor& slopes, const Tensor& rows, std::int64_t groups) {
  return times(tall(slopes, groups).transpose(-1, -2), tall(rows, groups));
}

}  // namespace pe::encodings
