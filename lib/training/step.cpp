#include "training/step.h"

#include <cmath>

namespace pe::training {

double accumulate(const model::LanguageModel& model, const at::Tensor& ids, const at::Tensor& targets,
                  const model::ForwardOptions& options, double scale, double z_loss) {
  const at::Tensor hidden = model.forward(ids, options);
  const at::Tensor share = model.training_loss(hidden.reshape({-1, hidden.size(-1)}), targets, scale, z_loss);
  share.backward();
  return share.item<double>();
}

Optimizer::StepResult update(Optimizer& optimizer, std::int64_t step, double lr, double loss) {
  if (!std::isfinite(loss)) return {.grad_norm = loss, .finite = false};
  return optimizer.step(step, lr);
}

}  // namespace pe::training
