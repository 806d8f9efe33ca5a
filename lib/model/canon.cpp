#include "model/canon.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "encodings/content/token_sums.h"

namespace pe::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Where each document of the rows begins, or undefined.
encodings::Span span_of(const Tensor& starts) {
  encodings::Span span;
  span.doc_start = starts;
  return span;
}

class Convolution : public torch::autograd::Function<Convolution> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Weight& taps, const Weight& bias,
                        const encodings::Span& span) {
    Tensor y = encodings::causal_convolution(span, x.to(taps.value.scalar_type()), taps.value);
    if (bias.value.defined()) y = y + bias.value;
    if (context != nullptr) {
      context->save_for_backward({x});
      context->saved_data["taps"] = taps.value;
      context->saved_data["starts"] = span.doc_start;
      context->saved_data["taps_gradient"] = taps.gradient;
      context->saved_data["bias_gradient"] = bias.gradient;
    }
    return y.to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto& data = context->saved_data;
    const Tensor x = context->get_saved_variables()[0], taps = data["taps"].toTensor();
    const Tensor taps_gradient = data["taps_gradient"].toTensor(), bias_gradient = data["bias_gradient"].toTensor();
    const encodings::Span span = span_of(data["starts"].toTensor());
    const Tensor wide = x.to(taps.scalar_type()), g = gradients[0].to(taps.scalar_type());
    const std::int64_t length = x.size(1), count = taps.size(1);
    if (bias_gradient.defined()) bias_gradient.add_(g.sum(at::IntArrayRef{0, 1}));
    Tensor dx = g * taps.select(1, count - 1);
    for (std::int64_t back = 0; back < std::min(count, length); ++back) {
      const std::int64_t tap = count - 1 - back;
      if (taps_gradient.defined()) {
        taps_gradient.select(1, tap).add_((g * encodings::earlier_rows(span, wide, back)).sum(at::IntArrayRef{0, 1}));
      }
      if (back == 0) continue;
      // A row that reads nothing `back` rows before gives nothing back there.
      const Tensor reads = encodings::earlier_rows(span, at::ones_like(wide.narrow(2, 0, 1)), back);
      dx.narrow(1, 0, length - back).add_((g * reads * taps.select(1, tap)).narrow(1, back, length - back));
    }
    return {dx.to(x.scalar_type()), {}, {}, {}};
  }
};

}  // namespace

Tensor Canon::operator()(const Tensor& x, const encodings::Span& span) const {
  if (!taps_.value.defined()) return x;
  // The span is passed as an object: autograd takes no undefined tensor argument, and starts may be undefined.
  Tensor y = at::GradMode::is_enabled() ? Convolution::apply(x, taps_, bias_, span)
                                        : Convolution::forward(nullptr, x, taps_, bias_, span);
  if (options_.activation == CanonOptions::Activation::kSilu) y = at::silu(y);
  return options_.residual ? x + y : y;
}

}  // namespace pe::model
