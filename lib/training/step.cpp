#include "training/step.h"

#include <cmath>

namespace pe::training {

at::Tensor accumulate(const model::LanguageModel& model, const at::Tensor& ids, const at::Tensor& targets,
                      const model::ForwardOptions& options, double scale, double z_loss) {
  const at::Tensor hidden = model.forward(ids, options);
  const at::Tensor share = model.training_loss(hidden.reshape({-1, hidden.size(-1)}), targets, scale, z_loss);
  share.backward();
  return share.detach();
}

Optimizer::StepResult update(Optimizer& optimizer, std::int64_t step, double lr, double loss) {
  return std::isfinite(loss) ? optimizer.step(step, lr) : Optimizer::StepResult{.grad_norm = loss, .finite = false};
}

}  // namespace pe::training
