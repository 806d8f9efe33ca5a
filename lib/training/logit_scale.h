/// @file
/// DroPE's logit scale β(s) = 1 + a · ln s for texts s times as long as in training (Gelberg et al. 2025,
/// arXiv:2512.12167): the encoding `length_scale` with slope a, fitted on validation text.
#pragma once

#include <cstdint>
#include <vector>

#include "artifact/workspace.h"
#include "data/token_shards/token_dataset.h"
#include "training/run.h"

namespace pe::training {

/// The encoding stacked with a length scale, which replaces `none`.
/// @throws ConfigError where the encoding has one: the two would multiply
Json with_length_scale(const Json& encoding, double slope);

/// Measurement at one length.
struct ScaleFit {
  std::int64_t length = 0;
  double beta = 1;  ///< the best of 1 + a · ln s, a = 0, 0.05, … 0.5
  double loss = 0;  ///< with it, nats per token
  double unscaled_loss = 0;
};

/// The line through β = 1 at s = 1 that is nearest to the fits in least squares: Σ (β − 1) ln s / Σ (ln s)².
double slope_of(const std::vector<ScaleFit>& fits, std::int64_t train_length);

/// @throws ArtifactError that names `where` if the validation split has no window of twice the training length
void require_fitting_windows(const data::TokenDataset& dataset, std::int64_t length, const std::string& where);

/// @throws ConfigError if the model has no positions at twice the training length, or attends over its batch
void require_fitting_model(const model::LanguageModel& model);

/// Measures 2, 4 and 8 times the training length, on at most `windows` windows of the validation split each, if there
/// are any, as far as the encoding has positions. Windows are read as the run validates: with its documents, and shared
/// among its ranks, which all call. Rank 0 writes artifact "model" again: its encoding has the slope, and `extra`
/// the fits. Artifact "metrics" gets the slope, too.
/// @throws support::StopRequest when asked to stop; the run has kept a checkpoint of its last step (Run::saves_end)
void fit_logit_scale(const Run& run, const data::TokenDataset& dataset, std::int64_t windows,
                     artifact::Workspace& workspace);

}  // namespace pe::training
