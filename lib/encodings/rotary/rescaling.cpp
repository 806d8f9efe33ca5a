#include "encodings/rotary/rescaling.h"

#include <cmath>

#include "encodings/rotary/rotary_schedules.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::encodings {

using support::cat;
using support::ConfigError;

namespace {

const RotarySchedule& schedule_named(const std::string& name) {
  std::vector<std::string> names;
  for (const RotarySchedule& schedule : rotary_schedules()) {
    if (schedule.name == name) return schedule;
    names.push_back(schedule.name);
  }
  throw ConfigError(cat("no rotary encoding ", support::quote(name), " that could be extended"), {},
                    support::suggestion(name, names));
}

const std::vector<support::VariantKind>& schedule_kinds() {
  static const std::vector<support::VariantKind> kinds = [] {
    std::vector<support::VariantKind> made;
    for (const RotarySchedule& schedule : rotary_schedules()) {
      made.push_back({.name = schedule.name, .summary = schedule.summary, .fields = schedule.fields});
    }
    return made;
  }();
  return kinds;
}

/// A rule that does not fit says so when it is built, for short texts and for long ones.
std::unique_ptr<Rotary> checked(std::unique_ptr<Rotary> rotary) {
  for (const std::int64_t length : {std::int64_t{1}, std::int64_t{1} << 40}) rotary->frequencies({.pe_len = length});
  return rotary;
}

}  // namespace

void ExtensionOptions::describe(support::FieldVisitor& v) {
  v.field("factor", factor, "Target length divided by the training length; 1: no change.", {.min = 1});
  describe_without_factor(v);
}

void ExtensionOptions::describe_without_factor(support::FieldVisitor& v) {
  RotaryOptions::describe(v);
  v.variant("over", over, schedule_kinds(), "The rotary encoding that is extended.", /*stackable=*/false,
            {.neutral = Json{{"kind", "rope"}}});
}

std::unique_ptr<Rotary> extended(const ExtensionOptions& options, const Shape& shape, RescalingPointer rescaling) {
  const Json& over = options.over.json;
  if (over.is_string()) {
    return checked(schedule_named(over.get<std::string>()).make(Json::object(), options, shape, std::move(rescaling)));
  }
  if (!over.is_object() || !over.contains("kind") || !over["kind"].is_string()) {
    throw ConfigError(cat("over: expected the name of a rotary encoding or a map with 'kind', found ", over.dump()));
  }
  const RotarySchedule& schedule = schedule_named(over["kind"].get<std::string>());
  Json own = over;
  own.erase("kind");
  std::vector<std::string> known;
  for (const support::Field& field : schedule.fields) known.push_back(field.name);
  for (const auto& [key, value] : own.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw ConfigError(
        cat("encoding '", schedule.name, "' below an extension has no option ", support::quote(key)), {},
        known.empty() ? "base and layout are given together with 'over'" : support::suggestion(key, known));
  }
  return checked(schedule.make(own, options, shape, std::move(rescaling)));
}

std::int64_t extended_length(const std::string& kind, const std::optional<std::int64_t>& option, const Shape& shape) {
  const std::int64_t length = option.value_or(shape.train_length);
  if (length < 1) throw ConfigError(cat("encoding '", kind, "' needs train_length, the length that is extended"));
  return length;
}

std::int64_t working_length(const std::string& kind, const std::optional<std::int64_t>& option, const Span& span) {
  if (option) return *option;
  if (span.pe_len) return *span.pe_len;
  throw ConfigError(cat("encoding '", kind, "' depends on length and needs pe_len, the length that it works at"));
}

double ntk_divisor(double factor, std::size_t pair, std::int64_t width) {
  if (width <= 2) return 1;
  return std::pow(factor, 2.0 * static_cast<double>(pair) / static_cast<double>(width - 2));
}

}  // namespace pe::encodings
