/// @file
/// Base of the nodes of functions.h: their shape as graph nodes, and names that they all use. Only their sources
/// include it.
///
/// Nodes hold weights as saved data, which autograd does not watch: the optimizer writes them in place after the
/// backward pass. RmsNorm and AddRmsNorm save theirs as a variable, which is released by then. Gradients of weights are
/// added to `Weight::gradient` and not returned.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/ops.h"
#include "kernels/product.h"
#include "model/functions.h"

namespace pe::model {

using kernels::add_product;
using kernels::NormResult;
using kernels::operations_for;
using kernels::product;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

inline Tensor rows_of(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

inline NormResult rms_norm_of(const Tensor& x, const Tensor& weight, double eps, const Tensor& delta = {}) {
  return operations_for(x).rms_norm(x, weight, eps, delta);
}

/// The gradient by x, plus `add` where that is defined; adds the weight's own.
inline Tensor rms_norm_gradient(const Tensor& dy, const Tensor& x, const Weight& weight, const Tensor& rstd,
                                const Tensor& add = {}) {
  return operations_for(x).rms_norm_backward(dy, x, weight.value, rstd, add, weight.gradient);
}

inline void add_bias(const Tensor& to, const Tensor& bias) {
  if (bias.defined()) to.add_(bias.to(to.scalar_type()));
}

/// gradient += the sum of g over its rows.
inline void add_column_sums(const Tensor& gradient, const Tensor& g) {
  if (gradient.defined()) gradient.add_(g.sum(0, false, gradient.scalar_type()));
}

}  // namespace pe::model
