/// @file
/// Rows of the study of structured rows (pe-dummy). Their tables have no identity in front: a row names its training
/// itself.
#pragma once

#include <array>

#include "schema/row.h"

namespace pe::schema {

/// One training after so many epochs.
struct DummyTraining {
  std::string mode, network, pe;
  std::int64_t depth = 0, epochs = 0;
  std::optional<std::int64_t> seed;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("mode", row.mode, "", "seed, fixed, fixed_by_base, hard or hard_echo");
    column("network", row.network, "", "wiring of the network");
    column("pe", row.pe, "", "encoding");
    column("depth", row.depth, "layers", "layers", kNeeded);
    column("epochs", row.epochs, "epochs", "epochs", kNeeded);
    column("seed", row.seed, "", "seed of the model");
  }
};

/// Losses.
struct DummyGrid : DummyTraining {
  static constexpr const char* kName = "dummy_grid";
  double loss_headline = kMissing, loss_all = kMissing, det_loss = kMissing, det_acc = kMissing;
  std::array<double, 8> loss_pos{kMissing, kMissing, kMissing, kMissing, kMissing, kMissing, kMissing, kMissing};
  double loss_pos63 = kMissing, seconds = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    DummyTraining::columns(row, column);
    column("loss_headline", row.loss_headline, "nats", "of the targets that the study is about", kNeeded);
    column("loss_all", row.loss_all, "nats", "of all targets", kNeeded);
    column("det_loss", row.det_loss, "nats", "of targets that follow from the tokens before them", kNeeded);
    column("det_acc", row.det_acc, "", "accuracy on these");
    for (std::size_t p = 0; p < row.loss_pos.size(); ++p) {
      column("loss_pos" + std::to_string(p), row.loss_pos[p], "nats", "of the targets of a position", kNeeded);
    }
    column("loss_pos63", row.loss_pos63, "nats", "of the wrap-around target");
    column("seconds", row.seconds, "s", "always missing: the output `timing` has it");
  }
};

/// Losses by kind of target.
struct DummyTargets : DummyTraining {
  static constexpr const char* kName = "dummy_targets";
  std::string variant, target;
  std::int64_t n = 0;
  double loss = kMissing, acc = kMissing, floor = kMissing, rate = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    DummyTraining::columns(row, column);
    column("variant", row.variant, "", "plain, shift_8 or long");
    column("target", row.target, "", "first, step, det, …");
    column("n", row.n, "", "targets");
    column("loss", row.loss, "nats", "nats per target", kNeeded);
    column("acc", row.acc, "", "accuracy", kNeeded);
    column("floor", row.floor, "nats", "loss of a predictor that sees all tokens so far");
    column("rate", row.rate, "", "learning rate");
    column("status", row.status, "", "ok or why there is no number");
  }
};

/// A vector of the encoding at the end.
struct DummyScale : DummyTraining {
  static constexpr const char* kName = "dummy_scales";
  std::string parameter;
  std::int64_t index = 0;
  double value = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    DummyTraining::columns(row, column);
    column("parameter", row.parameter, "", "name of the vector");
    column("index", row.index, "", "place in it");
    column("value", row.value, "", "value");
  }
};

struct DummySeconds : DummyTraining {
  static constexpr const char* kName = "dummy_seconds";
  double seconds = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    DummyTraining::columns(row, column);
    column("seconds", row.seconds, "s", "of the training");
  }
};

}  // namespace pe::schema
