/// @file
/// Extension of a rotary encoding to longer texts. A rule and its options make one registry entry, which can extend any
/// schedule of frequencies:
///
///     {kind: yarn, factor: 8}                                          # over rope
///     {kind: yarn, factor: 8, over: {kind: p_rope, fraction: 0.75}}    # over another member of the family
///
/// All parameters belong to the schedule, not to the rule, so a rule can be applied to a model that was trained without
/// it.
#pragma once

#include <functional>

#include "encodings/registry.h"
#include "encodings/rotary/rotary.h"

namespace pe::encodings {

/// Options that all rules share.
struct ExtensionOptions : RotaryOptions {
  double factor = 1;  ///< s, length to reach divided by the training length
  support::VariantValue over{"rope"};
  void describe(support::FieldVisitor& v);
  void describe_without_factor(support::FieldVisitor& v);
};

/// A member of the family that rules may extend. Its `base` and `layout` come from the rule's options.
struct RotarySchedule {
  std::string name;
  std::string summary;
  support::Schema fields;
  std::function<std::unique_ptr<Rotary>(const Json& own, const RotaryOptions&, const Shape&, RescalingPointer)> make;
};

/// From an options struct (RotaryOptions with `describe_own`) and a class built from (Options, Shape,
/// RescalingPointer).
template <typename Encoding, typename Options>
RotarySchedule rotary_schedule(std::string name, std::string summary) {
  RotarySchedule schedule{.name = name, .summary = std::move(summary)};
  schedule.fields = support::schema_of([](support::FieldVisitor& v) { Options().describe_own(v); });
  schedule.make = [name](const Json& own, const RotaryOptions& shared, const Shape& shape, RescalingPointer rescaling) {
    Options options;
    static_cast<RotaryOptions&>(options) = shared;
    support::bind_config([&](support::FieldVisitor& v) { options.describe_own(v); }, own, "encoding '" + name + "'");
    return std::make_unique<Encoding>(options, shape, std::move(rescaling));
  };
  return schedule;
}

/// The schedule that `options.over` names, extended by the rule.
std::unique_ptr<Rotary> extended(const ExtensionOptions& options, const Shape& shape, RescalingPointer rescaling);

/// `train_length`, or else the model's. @throws ConfigError where neither is known.
std::int64_t extended_length(const std::string& kind, const std::optional<std::int64_t>& option, const Shape& shape);

/// The length that a rule works at: `pe_len` of its options, else of the pass. @throws ConfigError without either.
std::int64_t working_length(const std::string& kind, const std::optional<std::int64_t>& option, const Span& span);

/// s^(2i/(width − 2)), NTK's divisor of frequency i; 1 for a single pair.
double ntk_divisor(double factor, std::size_t pair, std::int64_t width);

/// An entry's `fields` and `make` from a rule whose constructor is (Options, Shape).
template <typename Rule, typename Options>
EncodingEntry extension(EncodingEntry entry) {
  entry.facts.rotates = true;
  entry.fields = support::schema_of<Options>();
  entry.make = [name = entry.name](const Json& json, const Shape& shape) -> std::unique_ptr<PositionalEncoding> {
    const auto options = support::make_config<Options>(json, "encoding '" + name + "'");
    return extended(options, shape, std::make_shared<Rule>(options, shape));
  };
  return entry;
}

}  // namespace pe::encodings
