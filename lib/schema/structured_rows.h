/// @file
/// Rows of the study of structured rows (pe-dummy).
#pragma once

#include <array>

#include "schema/row.h"

namespace pe::schema {

/// Losses after so many epochs.
struct DummyGrid {
  static constexpr const char* kName = "dummy_grid";
  static constexpr const char* kMeaning = "Losses on structured rows after so many epochs.";
  std::string mode, network;
  std::int64_t depth = 0, epochs = 0;
  std::string seed;
  double loss_headline = kMissing, loss_all = kMissing, det_loss = kMissing, det_acc = kMissing;
  std::array<double, 8> loss_pos{kMissing, kMissing, kMissing, kMissing, kMissing, kMissing, kMissing, kMissing};
  double loss_pos63 = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("mode", row.mode, "", "seed, fixed, fixed_by_base, hard or hard_echo");
    column("network", row.network, "", "wiring of the network");
    column("depth", row.depth, "layers", "layers", kNeeded);
    column("epochs", row.epochs, "epochs", "epochs", kNeeded);
    column("seed", row.seed, "", "seed of the model");
    column("loss_headline", row.loss_headline, "nats", "of the targets that the study is about", kNeeded);
    column("loss_all", row.loss_all, "nats", "of all targets", kNeeded);
    column("det_loss", row.det_loss, "nats", "of targets that follow from the tokens before them", kNeeded);
    column("det_acc", row.det_acc, "", "accuracy on these");
    for (std::size_t p = 0; p < row.loss_pos.size(); ++p) {
      column("loss_pos" + std::to_string(p), row.loss_pos[p], "nats", "of the targets of a position", kNeeded);
    }
    column("loss_pos63", row.loss_pos63, "nats", "of the wrap-around target");
  }
};

/// Losses by what a target asks for.
struct DummyTargets {
  static constexpr const char* kName = "dummy_targets";
  static constexpr const char* kMeaning = "Losses on structured rows by target.";
  std::string mode, network, seed;
  std::int64_t depth = 0, epochs = 0;
  std::string variant, target;
  double loss = kMissing, acc = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("mode", row.mode, "", "as in dummy_grid");
    column("network", row.network, "", "as in dummy_grid");
    column("depth", row.depth, "layers", "layers", kNeeded);
    column("epochs", row.epochs, "epochs", "epochs", kNeeded);
    column("seed", row.seed, "", "seed of the model");
    column("variant", row.variant, "", "plain, shift_8 or long");
    column("target", row.target, "", "first, step, det, …");
    column("loss", row.loss, "nats", "nats a target", kNeeded);
    column("acc", row.acc, "", "accuracy", kNeeded);
    column("status", row.status, "", "ok or why there is no number");
  }
};

}  // namespace pe::schema
