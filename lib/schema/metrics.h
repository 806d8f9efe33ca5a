/// @file
/// Rows of the artifact `metrics`, as far as reports read them.
#pragma once

#include "schema/row.h"

namespace pe::schema {

/// A logged step of a training.
struct TrainingPoint {
  static constexpr const char* kName = "train";
  static constexpr const char* kMeaning = "Logged steps.";
  double step = kMissing;
  double tokens = kMissing;
  double loss = kMissing;
  double bpb = kMissing;
  double lr = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("step", row.step, "steps", "optimizer step", kNeeded);
    column("tokens", row.tokens, "tokens", "tokens up to there", kNeeded);
    column("loss", row.loss, "nats", "nats per token", kNeeded);
    column("bpb", row.bpb, "bits/byte", "bits per byte");
    column("lr", row.lr, "", "learning rate");
  }
};

/// A validation.
struct ValidationPoint {
  static constexpr const char* kName = "validation";
  static constexpr const char* kMeaning = "Validations.";
  double step = kMissing;
  double tokens = kMissing;
  double loss = kMissing;
  double bpb = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("step", row.step, "steps", "optimizer step", kNeeded);
    column("tokens", row.tokens, "tokens", "tokens of training up to there", kNeeded);
    column("loss", row.loss, "nats", "nats per token", kNeeded);
    column("bpb", row.bpb, "bits/byte", "bits per byte");
  }
};

}  // namespace pe::schema
