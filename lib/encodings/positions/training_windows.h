/// @file
/// Position maps that make a short training window look like pieces of a long one: pose, cream.
#pragma once

#include <optional>

#include "encodings/attention/positional_encoding.h"
#include "support/config.h"
#include "support/random.h"

namespace pe::encodings {

struct TrainingWindowOptions {
  std::optional<std::int64_t> target;
  void describe_target(support::FieldVisitor& v);
};

/// Training draws positions for each sequence; evaluations count 0, 1, 2, …
class TrainingWindow : public PositionalEncoding {
 public:
  TrainingWindow(const std::string& kind, const TrainingWindowOptions& options, const Shape& shape);

  Facts facts() const override { return {.shift_invariant = ShiftInvariance::kNever, .stochastic = true}; }
  Traits traits(const Span& span) const override { return {.maps_positions = span.training}; }
  bool needs_causal_mask() const override { return false; }
  /// @throws RangeError for a window longer than the target.
  Tensor positions(int layer, const Span& span) const final;

  /// Increasing positions below `target` for a window of `count` tokens.
  virtual std::vector<std::int64_t> draw(support::Xoshiro& random, std::int64_t count, std::int64_t target) const = 0;

 private:
  std::string kind_;
  std::int64_t target_;
};

}  // namespace pe::encodings
