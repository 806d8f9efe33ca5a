/// @file
/// One checkpoint under other encodings: the same weights with other frequencies or another scale of logits, untrained.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/scorer.h"
#include "support/json.h"

namespace pe::evaluation {

class ModelVariants {
 public:
  virtual ~ModelVariants() = default;
  /// The encoding that the model was trained with, as a config holds it.
  virtual const Json& encoding() const = 0;
  /// The model with another encoding. @throws ConfigError when the encoding refuses the model's shape.
  virtual std::unique_ptr<Scorer> make(const Json& encoding) const = 0;
};

/// `encoding` with its rotary member (itself, or one of a stack) extended by the rule `rule` for texts `factor` times as
/// long. An encoding that is an extension already is extended afresh from what lies below it. Absent when nothing rotates,
/// or rules cannot stand over what does.
std::optional<Json> extended_encoding(const Json& encoding, const std::string& rule, double factor);

/// `encoding` with all logits multiplied by `scale`.
Json scaled_encoding(const Json& encoding, double scale);

/// The rules of the registry's family "context extension" that work on a trained model without numbers of their own.
const std::vector<std::string>& static_rules();

}  // namespace pe::evaluation
