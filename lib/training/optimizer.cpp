#include "training/optimizer.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

namespace pe::training {

AdamW::AdamW(model::LanguageModel model, const OptimizerSettings& settings, std::int64_t start)
    : model_(std::move(model)), settings_(settings), start_(start) {
  at::NoGradGuard no_gradients;
  for (const model::FlatGroup& group : model_.groups()) {
    first_.push_back(at::zeros_like(group.values));
    second_.push_back(at::zeros_like(group.values));
    steps_.push_back(at::zeros({}, group.values.options().dtype(at::kFloat)));
  }
}

AdamW::StepResult AdamW::step(std::int64_t step, double lr) {
  at::NoGradGuard no_gradients;
  double squares = 0;
  for (const model::FlatGroup& group : model_.groups()) {
    const double norm = at::linalg_vector_norm(group.gradients, 2.0).item<double>();
    squares += norm * norm;
  }
  StepResult result;
  result.grad_norm = std::sqrt(squares);
  result.finite = std::isfinite(result.grad_norm);
  if (!result.finite) return result;
  result.clipped = settings_.clip > 0 && result.grad_norm > settings_.clip;
  for (std::size_t i = 0; i < model_.groups().size(); ++i) {
    const model::FlatGroup& group = model_.groups()[i];
    if (group.values.numel() == 0) continue;
    // Set, not counted up: the integer step is the only clock.
    steps_[i].fill_(static_cast<double>(step - start_ + 1));
    std::optional<at::Tensor> scale;   // the kernel divides gradients by it
    if (result.clipped) {
      scale = at::zeros({}, group.values.options().dtype(at::kFloat));
      scale->fill_(result.grad_norm / settings_.clip);
    }
    const at::Tensor values = group.values, gradients = group.gradients;
    at::_fused_adamw_({values}, {gradients}, {first_[i]}, {second_[i]}, {}, {steps_[i]}, lr, settings_.beta1,
                      settings_.beta2, group.decay ? settings_.weight_decay : 0.0, settings_.eps, /*amsgrad=*/false,
                      /*maximize=*/false, scale);
  }
  model_.after_step();
  return result;
}

}  // namespace pe::training
