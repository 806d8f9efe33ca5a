/// @file
/// Layers that are other than their neighbours: one of every `interval`.
#pragma once

#include <optional>

#include "support/config.h"
#include "support/text.h"

namespace pe::encodings {

struct LayerPattern {
  std::int64_t interval = 0;          ///< 0: no layer
  std::optional<std::int64_t> phase;  ///< within each group of layers, counted from 0; absent: the last

  bool holds(int layer) const { return interval > 0 && layer % interval == phase.value_or(interval - 1); }

  void describe_phase(support::FieldVisitor& v) {
    v.field("phase", phase, "Index of that layer in its group, counted from 0; auto: the last.",
            {.unit = "layers", .min = 0});
    v.check(!phase || *phase < std::max<std::int64_t>(interval, 1), "phase lies below interval");
  }
};

}  // namespace pe::encodings
