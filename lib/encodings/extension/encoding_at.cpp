#include "encodings/extension/encoding_at.h"

#include "encodings/registry.h"
#include "encodings/rotary/rescaling.h"
#include "encodings/rotary/rotary_schedules.h"

namespace pe::encodings {

namespace {

Json in_full(const Json& encoding) { return encoding.is_string() ? Json{{"kind", encoding}} : encoding; }

/// Options that mean the training length where nothing else is said.
void fill_lengths(const support::Schema& fields, Json& options, std::int64_t trained) {
  for (const char* name : {"train_length", "max_positions", "floor_scale"}) {
    if (support::find_field(fields, name) == nullptr) continue;
    if (!options.contains(name) || options[name].is_null()) options[name] = trained;
  }
}

const RotarySchedule* find_schedule(const std::string& name) {
  for (const RotarySchedule& schedule : rotary_schedules()) {
    if (schedule.name == name) return &schedule;
  }
  return nullptr;
}

/// The part of an encoding that a rule can extend: a rotary one, or the base of another rule; null where there is none.
Json rotary_of(const Json& encoding) {
  if (encoding.contains("stack")) {
    for (const Json& member : encoding["stack"]) {
      if (Json found = rotary_of(in_full(member)); !found.is_null()) return found;
    }
    return nullptr;
  }
  if (!encoding.contains("over"))
    return find_schedule(encoding.value("kind", "")) == nullptr ? Json(nullptr) : encoding;
  Json below = in_full(encoding["over"]);
  for (const char* shared : {"base", "layout"}) {
    if (encoding.contains(shared)) below[shared] = encoding[shared];
  }
  return below;
}

/// Does it rotate q and k?
bool is_rotary(const Json& encoding) {
  const EncodingEntry* entry = find_encoding(in_full(encoding).value("kind", ""));
  return entry != nullptr && entry->facts.rotates;
}

}  // namespace

Json encoding_at(const Json& wanted, const Json& had, std::int64_t trained, std::int64_t length) {
  Json made = in_full(wanted);
  if (made.contains("stack")) {
    for (Json& member : made["stack"]) member = encoding_at(member, had, trained, length);
    return made;
  }
  const EncodingEntry* entry = find_encoding(made.value("kind", ""));
  if (entry == nullptr) return made;  // reported where it is built
  const Json defaults = support::defaults(entry->fields);
  const auto plain = [&](const char* name) { return !made.contains(name) || made[name] == defaults[name]; };
  if (defaults.contains("over")) {
    Json below = rotary_of(in_full(had));
    if (!below.is_null()) {
      for (const char* shared : {"base", "layout"}) {
        if (below.contains(shared) && plain(shared)) made[shared] = below[shared];
        below.erase(shared);
      }
      if (plain("over")) made["over"] = below;
    }
    if (made.contains("over")) {
      made["over"] = in_full(made["over"]);
      if (const auto* schedule = find_schedule(made["over"].value("kind", ""))) {
        fill_lengths(schedule->fields, made["over"], trained);
      }
    }
    if (defaults.contains("factor") && plain("factor") && entry->name != "dyn_ntk") {
      made["factor"] = static_cast<double>(length) / static_cast<double>(trained);
    }
  }
  fill_lengths(entry->fields, made, trained);
  return made;
}

Json encoding_over(const Json& wanted, const Json& had, std::int64_t trained, std::int64_t length) {
  if (!had.is_object() || !had.contains("stack") || in_full(wanted).contains("stack") || !is_rotary(wanted)) {
    return encoding_at(wanted, had, trained, length);
  }
  Json made = had;
  for (Json& member : made["stack"]) {
    if (!is_rotary(member)) continue;
    member = encoding_at(wanted, member, trained, length);
    return made;
  }
  return encoding_at(wanted, had, trained, length);
}

}  // namespace pe::encodings
