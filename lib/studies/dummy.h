/// @file
/// `pe-dummy`: one network with one encoding learns the structured rows of studies/dummy_rows.h and measures how well
/// after each number of epochs. The learning rate is constant, so fewer epochs are points of the longest run, and one
/// task gives a whole row of the grid depth x epochs. doc/studies/dummy.md has the results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "artifact/workspace.h"
#include "model/compute.h"
#include "model/language_model.h"
#include "studies/dummy_rows.h"
#include "support/config.h"

namespace pe::studies {

struct DummyConfig {
  struct Dummy {
    enum class SplitBy { kRow, kBase };
    DummyMode mode = DummyMode::kSeed;
    SplitBy split = SplitBy::kRow;  ///< mode fixed
    std::vector<std::int64_t> epochs = {1, 4, 16};
    std::int64_t batch = 32;
    std::int64_t train_rows = 0;  ///< 0: as the mode has them
    std::int64_t test_rows = 0;
    std::vector<double> rates = {1e-3};  ///< Adam's; of several, validation chooses at each number of epochs.
    std::vector<std::int64_t> shifts;    ///< Tests with all positions moved along by these.
    bool long_rows = false;              ///< Mode hard: a test with longer continuations than any in training.
    bool echo = false;                   ///< Mode hard: distractors, in training and test.
    std::int64_t seed = 42;              ///< Of weights, rows of training, their order, dropout.
    double save_every = 30;              ///< Seconds between saved states, at the ends of epochs.
    void describe(support::FieldVisitor& v);

    DummyOptions options() const { return {mode, split == SplitBy::kBase, echo, long_rows}; }
  };
  Dummy dummy;
  model::ModelConfig model;
  model::ComputeConfig compute;
  void describe(support::FieldVisitor& v);
};

/// "bare_bidirectional", "post_norm_over_batch", "post_norm_causal", "pre_norm_causal", …: what is compared besides
/// encodings.
std::string network_name(const model::ModelConfig& config);

/// Continues from the state of a killed attempt in its work folder. Writes output `scores` (dummy_grid, dummy_targets,
/// dummy_scales) and, where requested, `timing` (dummy_seconds).
void dummy(const DummyConfig& config, artifact::Workspace& workspace);

}  // namespace pe::studies
