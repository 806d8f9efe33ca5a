/// @file
/// Optimizers over the model's flat buffers, with clipping folded in. AdamW (Loshchilov and Hutter 2019,
/// arXiv:1711.05101) and Adam (Kingma and Ba 2015, arXiv:1412.6980) are one fused pass per group. Muon (Jordan et al.
/// 2024) takes the matrices of the blocks and leaves the rest to AdamW.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "model/language_model.h"
#include "support/json.h"
#include "training/train_config.h"

namespace pe::training {

/// Five Newton-Schulz steps x ← a·x + (b·A + c·A²)·x, A = x·xᵀ, with Jordan's (a, b, c) = (3.4445, −4.7750, 2.0315).
/// They start from g / (‖g‖ + 1e-7), along the shorter side. Singular values of g move to about 1 (0.7 to 1.2). @param
/// g [m, n].
at::Tensor orthogonalised(const at::Tensor& g);
/// The same for a stack of matrices [k, m, n], by products in bf16 with fp32 sums, as on a GPU; in bf16.
at::Tensor orthogonalised_in_bf16(const at::Tensor& matrices);

/// Factor of Muon's update that gives it AdamW's usual size, so that both share learning rate and weight decay: 0.2 ·
/// √max(m, n) (Liu et al. 2025, arXiv:2502.16982).
double muon_scale(std::int64_t rows, std::int64_t columns);

/// A part of the state that a run resumes from, without the step: flat, in the layout of `model.groups()`.
struct StatePart {
  std::string name;  ///< before the parameters' names in checkpoints: "optim/m/"
  std::vector<at::Tensor> flat;
  std::vector<std::string> absent;  ///< parameters that have none
  bool of_updates = true;           ///< false: a result as well, and part of every artifact
};

class Optimizer {
 public:
  /// Moments start at zero. @param start the step at which they do; bias correction counts from there.
  Optimizer(model::LanguageModel model, const OptimizerSettings& settings, std::int64_t start);

  struct StepResult {
    double grad_norm = 0;  ///< of all gradients, before clipping
    bool clipped = false;
    bool finite = true;  ///< false: nothing was changed
  };
  /// One update with the gradients that the model holds. `step` counts from 0 and is the only clock.
  StepResult step(std::int64_t step, double lr);

  /// Is there a form of a step whose numbers the host reads later? AdamW and Adam have it by the plug-in's kernels.
  bool has_unread_steps() const;
  /// The same update, if its numbers and the loss are finite, decided where the model is. After more than
  /// `skip_nonfinite` steps in a row with other numbers nothing changes any more.
  /// @param loss float64 []. @return float64 [2]: the loss and the sum of the gradients' squares, for `result_of`
  at::Tensor unread_step(std::int64_t step, double lr, const at::Tensor& loss);
  /// The result that `update` gives for such numbers.
  StepResult result_of(double loss, double squares) const;
  /// @param count  of steps just before the next one that were skipped, one after the other
  void set_skipped(std::int64_t count);

  /// All that it holds: averages of the weights where they are kept, first moments ("optim/m/", Muon's momentum among
  /// them) and second ones ("optim/v/"), which matrices that Muon takes do not have.
  std::vector<StatePart> state() const;

  /// Moving averages of the weights, in the layout of `model.groups()`; empty where `settings.ema` is 0. They begin as
  /// the weights.
  const std::vector<at::Tensor>& averages() const { return averages_; }

 private:
  /// A range of a flat buffer that is treated alike: a whole group, unless settings distinguish its parameters.
  struct Part {
    std::size_t group = 0;
    std::int64_t begin = 0, count = 0;
    bool decay = false, encoding = false;
    std::vector<std::int64_t> muon;  ///< rows and columns; empty: AdamW or Adam
  };
  std::vector<Part> parts_of();
  /// By the plug-in's kernel, which writes the low-precision copies too; false where there is none.
  /// @param verdict  as AdamRates has it
  bool adam_with_shadows(const Part& part, std::int64_t step, double lr, double divisor,
                         const at::Tensor& verdict = {});
  double rate_of(const Part& part, double lr) const { return part.encoding ? lr * settings_.encoding_lr_scale : lr; }
  void adam(const Part& part, std::int64_t step, double lr, const std::optional<at::Tensor>& scale);
  void muon(const Part& part, double lr, const std::optional<at::Tensor>& scale);
  /// Of parts whose matrices have one shape, where the plug-in is loaded: all in one call, in bf16.
  void muon(const std::vector<const Part*>& parts, double lr, const std::optional<at::Tensor>& scale);
  /// The gradient after Nesterov's momentum. @param scale that gradients are divided by
  at::Tensor muon_gradient(const Part& part, const std::optional<at::Tensor>& scale);
  void apply_muon(const Part& part, const at::Tensor& direction, double lr);

  model::LanguageModel model_;
  OptimizerSettings settings_;
  std::int64_t start_;
  std::vector<at::Tensor> first_, second_, steps_, averages_;
  at::Tensor skipped_;  ///< how many unread steps in a row were skipped, float64 []
  std::vector<Part> parts_;
  std::vector<std::string> by_muon_;  ///< parameters
};

/// Form in checkpoints. Settings that came after format 1 appear only where they differ from AdamW on matrices, so that
/// older checkpoints keep their bytes.
Json to_json(const OptimizerSettings& settings, std::int64_t start);

/// The inverse. @throws ArtifactError naming `file` when a number is missing or a word unknown.
OptimizerSettings optimizer_from_json(const Json& json, const std::string& file);

}  // namespace pe::training
