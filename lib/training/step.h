/// @file
/// One step of every training: forward and backward passes that add up gradients, then one update.
#pragma once

#include <cstdint>

#include "model/language_model.h"
#include "training/optimizer.h"

namespace pe::training {

/// Adds the gradients of scale · Σ losses of a micro-batch to the model's.
/// @param targets [B·T], negative ones do not count. @return scale · Σ losses, [], which the host has not waited for
at::Tensor accumulate(const model::LanguageModel& model, const at::Tensor& ids, const at::Tensor& targets,
                      const model::ForwardOptions& options, double scale, double z_loss = 0);

/// The update by the gradients that the model holds, where they and the loss are finite; else nothing changes.
Optimizer::StepResult update(Optimizer& optimizer, std::int64_t step, double lr, double loss);

}  // namespace pe::training
