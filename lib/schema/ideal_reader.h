/// @file
/// Rows of the table of `pe-ideal-reader`, as far as reports read them.
#pragma once

#include "schema/row.h"

namespace pe::schema {

/// Loss of an ideal reader at a place of a text, by the context that it has read.
struct IdealReaderPoint {
  static constexpr const char* kName = "ideal_reader";
  static constexpr const char* kMeaning = "Loss that the missing context costs an ideal reader.";
  double position = kMissing;
  double context = kMissing;
  double nats_per_byte = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("position", row.position, "bytes", "place in the text", kNeeded);
    column("context", row.context, "bytes", "bytes read before it", kNeeded);
    column("nats_per_byte", row.nats_per_byte, "nats", "loss above the loss of a reader of everything", kNeeded);
  }
};

}  // namespace pe::schema
