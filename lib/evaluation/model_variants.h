/// @file
/// One checkpoint under other encodings: the same weights with other frequencies or another scale of logits, untrained.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/scorer.h"
#include "support/json.h"

namespace pe::evaluation {

/// Factor for the frequency of a rotary pair in a layer, layers and pairs from 0, pairs fast to slow.
using FrequencyScale = std::function<double(std::int64_t layer, std::int64_t pair)>;

class ModelVariants {
 public:
  virtual ~ModelVariants() = default;
  /// The encoding that the model was trained with, as a config holds it.
  virtual const Json& encoding() const = 0;
  /// The model with another encoding. @throws ConfigError when the encoding refuses the model's shape.
  virtual std::unique_ptr<Scorer> make(const Json& encoding) const = 0;
  /// The model with the frequencies of its rotary encoding scaled; null where that is not plain `rope`, alone or in a
  /// stack.
  virtual std::unique_ptr<Scorer> make_scaled(const FrequencyScale&) const { return nullptr; }
  virtual std::int64_t layers() const { return 0; }
  virtual std::int64_t pairs() const { return 0; }  ///< of channels in a head
};

/// `encoding` with its rotary member (itself, or one of a stack) extended by the rule `rule` for texts `factor` times
/// as long. An encoding that is an extension already is extended from its base encoding, by its factor times this one.
/// Absent when nothing rotates, or the rotary member takes no rules.
std::optional<Json> extended_encoding(const Json& encoding, const std::string& rule, double factor);

/// `encoding` with its rotary member, if that is plain `rope`, replaced by `kind` with these options and its old base
/// and layout. Examples are another base, fewer rotated pairs and scaled frequencies. Absent for any other encoding.
std::optional<Json> rope_changed(const Json& encoding, const std::string& kind, const Json& options);

/// `encoding` with all logits multiplied by `scale`.
Json scaled_encoding(const Json& encoding, double scale);

/// The rules of the registry's family "context extension" that work on a trained model without further numbers.
const std::vector<std::string>& static_rules();

/// Rules of the encoding `distance_map`, which `extended_encoding` takes by their names too; they find their own factor
/// from the length.
const std::vector<std::string>& distance_rules();

}  // namespace pe::evaluation
