#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "kernels/dispatch.h"
#include "model/node.h"

namespace pe::model {
namespace {

/// Rows at a time: on the CPU about a million logits, which fit into a cache. For a large vocabulary there are enough
/// rows that reading the head's weights three times per chunk takes little time. On a GPU it is a gibibyte, and in bf16
/// up to four, where that is at most a sixteenth of its memory.
std::int64_t chunk_rows(const Tensor& hidden, std::int64_t vocabulary, bool gradient) {
  const bool narrow = gradient && hidden.scalar_type() == at::kBFloat16;
  std::int64_t logits = std::int64_t{1} << (hidden.is_cpu() ? 20 : narrow ? 29 : 28);
  if (narrow && !hidden.is_cpu()) {
    const std::int64_t most = kernels::device_memory(hidden.device()) / 16 / hidden.element_size();
    while (logits < std::int64_t{1} << 31 && 2 * logits <= most) logits *= 2;
  }
  constexpr std::int64_t kLeast = 256;
  return std::clamp<std::int64_t>(logits / vocabulary, kLeast, std::max(kLeast, hidden.size(0)));
}

struct CrossEntropy {
  Tensor losses;        ///< [N]
  Tensor dhidden;       ///< of the sum; undefined without gradients
  Tensor dhead, dbias;  ///< defined: added to
};

/// @param result receives losses and `dhidden`.
void cross_entropy(CrossEntropy& result, const Tensor& hidden, const Tensor& targets, const Tensor& head,
                   const Tensor& bias, bool gradient, const LogitOptions& options) {
  const std::int64_t rows = hidden.size(0), step = chunk_rows(hidden, head.size(0), gradient);
  const auto precise = hidden.options().dtype(kernels::at_least_fp32(hidden));
  result.losses = at::empty({rows}, precise);
  if (gradient) result.dhidden = at::empty_like(hidden, at::MemoryFormat::Contiguous);
  const Tensor index = targets.contiguous();
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first);
    const Tensor part = hidden.narrow(0, first, count);
    Tensor logits = gradient ? product(part, head.t()) : kernels::wide_product(part, head.t());
    add_bias(logits, bias);
    if (!operations_for(logits).takes_low_precision_logits) logits = logits.to(precise.dtype());
    operations_for(logits).cross_entropy(logits, index.narrow(0, first, count), result.losses.narrow(0, first, count),
                                         gradient, options);
    if (!gradient) continue;
    const Tensor dlogits = logits.to(hidden.scalar_type());
    Tensor to = result.dhidden.narrow(0, first, count);
    kernels::product_into(to, dlogits, head);
    add_product(result.dhead, dlogits, part);
    add_column_sums(result.dbias, dlogits);
  }
}

class LinearCrossEntropy : public Function<LinearCrossEntropy> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& targets, const Weight& head,
                        const LogitOptions& options, const Weight& bias) {
    CrossEntropy result;
    if (head.gradient.defined()) {
      const auto precise = hidden.options().dtype(kernels::at_least_fp32(hidden));
      result.dhead = at::zeros(head.value.sizes(), precise);
      if (bias.value.defined()) result.dbias = at::zeros(bias.value.sizes(), precise);
    }
    cross_entropy(result, hidden, targets, head.value, bias.value, true, options);
    context->save_for_backward({result.dhidden, result.dhead, result.dbias});
    context->saved_data["gradient"] = head.gradient;
    context->saved_data["bias_gradient"] = bias.gradient;
    return result.losses.sum(at::kDouble);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor head_gradient = context->saved_data["gradient"].toTensor();
    const Tensor scale = gradients[0].to(kernels::at_least_fp32(saved[0]));
    const Tensor bias_gradient = context->saved_data["bias_gradient"].toTensor();
    if (head_gradient.defined()) head_gradient.addcmul_(saved[1], scale);
    if (bias_gradient.defined()) bias_gradient.addcmul_(saved[2], scale);
    return {(saved[0] * scale).to(saved[0].scalar_type()), {}, {}, {}, {}};
  }
};

/// The factor of the loss is known before the pass, so no gradient waits for it.
class ScaledCrossEntropy : public Function<ScaledCrossEntropy> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& targets, const Weight& head,
                        const LogitOptions& options, const Weight& bias) {
    CrossEntropy result;
    result.dhead = head.gradient;
    result.dbias = bias.gradient;
    cross_entropy(result, hidden, targets, head.value, bias.value, true, options);
    context->save_for_backward({result.dhidden});
    return result.losses.sum(at::kDouble).mul_(options.scale);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    // A read of a GPU's memory would wait for all that is queued.
    TORCH_CHECK(kernels::waits_for_reads(gradients[0].device()) || gradients[0].item<double>() == 1,
                "backward() has to begin at training_loss");
    return {context->get_saved_variables()[0], {}, {}, {}, {}};
  }
};

}  // namespace

Tensor training_loss(const Tensor& hidden, const Tensor& targets, const Weight& head, const LogitOptions& options,
                     const Weight& bias) {
  if (kernels::plugin_for(hidden) != nullptr && at::GradMode::is_enabled())
    return ScaledCrossEntropy::apply(hidden, targets, head, options, bias);
  LogitOptions unscaled = options;
  unscaled.scale = 1;
  return linear_cross_entropy(hidden, targets, head, unscaled, bias) * options.scale;
}

Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& targets, const Weight& head,
                            const LogitOptions& options, const Weight& bias) {
  if (!at::GradMode::is_enabled()) return row_losses(hidden, targets, head.value, options, bias.value).sum(at::kDouble);
  return LinearCrossEntropy::apply(hidden, targets, head, options, bias);
}

Tensor row_losses(const Tensor& hidden, const Tensor& targets, const Tensor& head, const LogitOptions& options,
                  const Tensor& bias) {
  CrossEntropy result;
  cross_entropy(result, hidden.contiguous(), targets, head, bias, false, options);
  return result.losses;
}

}  // namespace pe::model
