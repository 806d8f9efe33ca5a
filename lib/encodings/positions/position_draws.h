/// @file
/// Base of position maps that draw: options for the scope of a draw, and the key of a draw.
#pragma once

#include <string>

#include "encodings/attention/positional_encoding.h"
#include "support/config.h"

namespace pe::encodings {

struct DrawOptions {
  enum class Scope { kModel, kLayer };
  enum class Evaluation { kSample, kSequential, kFixedSeed };

  Scope scope = Scope::kLayer;
  bool per_sample = false;
  Evaluation eval = Evaluation::kSample;
  void describe_draws(support::FieldVisitor& v);

  /// Does a pass draw, or are its positions 0, 1, 2, …?
  bool draws(const Span& span) const { return span.training || eval != Evaluation::kSequential; }
  /// @param kind names the draw. @param sample id of the sequence; 0 where a draw is for the batch.
  std::uint64_t key(const std::string& kind, std::uint64_t seed, int layer, const Span& span,
                    std::int64_t sample) const;
};

/// Id of sequence b, by which draws for a sequence are addressed.
std::int64_t sample_id(const Span& span, std::int64_t b);

}  // namespace pe::encodings
