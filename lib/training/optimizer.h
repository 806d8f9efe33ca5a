/// @file
/// AdamW over the model's flat buffers: one fused pass per group, with clipping folded in.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "model/language_model.h"
#include "training/train_config.h"

namespace pe::training {

class AdamW {
 public:
  /// Moments start at zero. @param start the step at which they do; bias correction counts from there.
  AdamW(model::LanguageModel model, const OptimizerSettings& settings, std::int64_t start);

  struct StepResult {
    double grad_norm = 0;      ///< of all gradients, before clipping
    bool clipped = false;
    bool finite = true;        ///< false: nothing was changed
  };
  /// One update with the gradients that the model holds. `step` counts from 0 and is the only clock.
  StepResult step(std::int64_t step, double lr);

  const OptimizerSettings& settings() const { return settings_; }
  std::int64_t start() const { return start_; }
  /// Flat, in the layout of `model.groups()`.
  const std::vector<at::Tensor>& first_moments() const { return first_; }
  const std::vector<at::Tensor>& second_moments() const { return second_; }

 private:
  model::LanguageModel model_;
  OptimizerSettings settings_;
  std::int64_t start_;
  std::vector<at::Tensor> first_, second_, steps_;
};

}  // namespace pe::training
