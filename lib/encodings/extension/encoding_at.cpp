#include "encodings/extension/encoding_at.h"

#include <algorithm>

#include "encodings/registry.h"
#include "encodings/rotary/rescaling.h"
#include "encodings/rotary/rotary_schedules.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::encodings {

namespace {

Json in_full(const Json& encoding) { return encoding.is_string() ? Json{{"kind", encoding}} : encoding; }

/// Gives an option its value where the encoding has it and nothing else is said.
void fill(const EncodingEntry& entry, Json& options, const char* name, std::int64_t value) {
  const support::Field* field = support::find_field(entry.fields, name);
  if (field == nullptr || !field->default_value.is_null()) return;
  if (!options.contains(name) || options[name].is_null()) options[name] = value;
}

/// Options that follow from the training length.
void fill_lengths(const EncodingEntry& entry, Json& options, std::int64_t trained) {
  for (const char* name : {"train_length", "max_positions", "floor_scale"}) fill(entry, options, name, trained);
  const std::int64_t quarter = std::max<std::int64_t>(1, trained / 4);
  if (entry.name == "window") fill(entry, options, "size", quarter);
  if (entry.name == "inkling") fill(entry, options, "extent", quarter);
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

/// The member of a stack, or the encoding itself, that is of one of these kinds; null where there is none.
Json member_of(const Json& encoding, const std::vector<std::string>& kinds) {
  const std::vector<Json> members =
      encoding.contains("stack") ? encoding["stack"].get<std::vector<Json>>() : std::vector{encoding};
  for (const Json& member : members) {
    const EncodingEntry* entry = find_encoding(in_full(member).value("kind", ""));
    if (entry != nullptr && std::find(kinds.begin(), kinds.end(), entry->name) != kinds.end()) return in_full(member);
  }
  return nullptr;
}

/// How far a checkpoint's own rule reaches: a further rule in its place begins there.
struct Reach {
  double factor = 1;
  std::int64_t trained = 0;  ///< training length of the rotation below
};

Reach reach_of(const Json& encoding, std::int64_t trained) {
  if (encoding.contains("stack")) {
    for (const Json& member : encoding["stack"]) {
      if (!rotary_of(in_full(member)).is_null()) return reach_of(in_full(member), trained);
    }
  }
  Reach reach{.factor = 1, .trained = trained};
  if (!encoding.contains("over")) return reach;
  if (const Json factor = encoding.value("factor", Json()); factor.is_number()) reach.factor = factor.get<double>();
  if (const Json length = encoding.value("train_length", Json()); length.is_number_integer())
    reach.trained = length.get<std::int64_t>();
  return reach;
}

/// Does it rotate q and k?
bool is_rotary(const Json& encoding) {
  const Json full = in_full(encoding);
  const EncodingEntry* entry = find_encoding(full.value("kind", ""));
  if (entry == nullptr) return false;
  return entry->facts.rotates || (entry->name == "formula" && full.value("frequencies", "") != "");
}

/// A rule in place of an encoding that it cannot extend would be a rule over rope, which the model has never seen.
void require_extendable(const std::string& rule, const Json& had) {
  const std::vector<Json> members = had.contains("stack") ? had["stack"].get<std::vector<Json>>() : std::vector{had};
  for (const Json& member : members) {
    if (!is_rotary(member)) continue;
    throw support::ConfigError(
        support::cat("encoding '", rule, "' cannot extend '", in_full(member).value("kind", ""), "' of the checkpoint"),
        {}, "a rule extends rope, p_rope, partial and the like; give `over` to replace the checkpoint's encoding");
  }
}

void fill_over(Json& options, std::int64_t trained) {
  if (!options.contains("over")) return;
  options["over"] = in_full(options["over"]);
  if (const EncodingEntry* below = find_encoding(options["over"].value("kind", "")))
    fill_lengths(*below, options["over"], trained);
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
    Reach reach{.factor = 1, .trained = trained};
    if (below.is_null()) {
      if (plain("over")) require_extendable(entry->name, in_full(had));
    } else {
      for (const char* shared : {"base", "layout"}) {
        if (below.contains(shared) && plain(shared)) made[shared] = below[shared];
        below.erase(shared);
      }
      if (plain("over")) {
        made["over"] = below;
        reach = reach_of(in_full(had), trained);
      }
    }
    fill_over(made, trained);
    const bool by_text = entry->name == "dyn_ntk" || made.value("dynamic", false);
    if (defaults.contains("factor") && made.value("factor", defaults["factor"]) == 1 && !by_text) {
      made["factor"] = reach.factor * static_cast<double>(length) / static_cast<double>(trained);
    }
    fill(*entry, made, "train_length", reach.trained);
  } else if (entry->name == "clex") {  // it begins as the checkpoint's rope, and as no other rotation
    const Json below = member_of(in_full(had), {"rope", "clex"});
    if (below.is_null()) {
      require_extendable(entry->name, in_full(had));
    } else {
      for (const char* shared : {"base", "layout"}) {
        if (below.contains(shared) && plain(shared)) made[shared] = below[shared];
      }
    }
  }
  fill_lengths(*entry, made, trained);
  return made;
}

Json with_lengths(const Json& had, std::int64_t trained) {
  Json made = in_full(had);
  if (made.contains("stack")) {
    for (Json& member : made["stack"]) member = with_lengths(member, trained);
    return made;
  }
  const EncodingEntry* entry = find_encoding(made.value("kind", ""));
  if (entry == nullptr) return made;  // reported where it is built
  fill_over(made, trained);
  fill_lengths(*entry, made, trained);
  fill(*entry, made, "target", 8 * trained);
  if (entry->name == "bipe") fill(*entry, made, "intra_positions", trained);
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
