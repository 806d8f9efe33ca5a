#include "evaluation/model_variants.h"

#include <algorithm>

#include "encodings/registry.h"
#include "support/config.h"
#include "support/error.h"

namespace pe::evaluation {

namespace {

std::string kind_of(const Json& encoding) {
  return encoding.is_string() ? encoding.get<std::string>() : encoding.value("kind", "");
}

/// Options of `encoding` that `fields` knows, without the options that every rule has in addition to `over`.
Json own_options(const Json& encoding) {
  Json own = Json::object();
  if (!encoding.is_object()) return own;
  for (const auto& [key, value] : encoding.items()) {
    if (key != "kind" && key != "base" && key != "layout") own[key] = value;
  }
  return own;
}

/// The factor by which a rule has extended a model already.
double factor_of(const encodings::EncodingEntry& rule, const Json& encoding) {
  const Json defaults = support::defaults(rule.fields);
  const Json factor =
      encoding.is_object() && encoding.contains("factor") ? encoding["factor"] : defaults.value("factor", Json(1));
  return factor.is_number() ? factor.get<double>() : 1;
}

bool can_be_built(const Json& encoding) {
  try {
    encodings::make_encoding(encoding, {.width = 64, .head_width = 64, .train_length = 64});
    return true;
  } catch (const support::ConfigError&) {
    return false;
  }
}

}  // namespace

const std::vector<std::string>& static_rules() {
  static const std::vector<std::string> rules = {"pi",   "ntk",       "dyn_ntk",        "ntk_parts", "llama3",
                                                 "yarn", "resonance", "yarn_resonance", "longrope"};
  return rules;
}

const std::vector<std::string>& distance_rules() {
  static const std::vector<std::string> rules = {"rerope", "leaky_rerope", "self_extend", "dca", "lm_infinite"};
  return rules;
}

std::optional<Json> extended_encoding(const Json& encoding, const std::string& rule, double factor) {
  if (encoding.is_object() && encoding.contains("stack")) {
    Json changed = encoding;
    for (Json& member : changed["stack"]) {
      if (const auto extended = extended_encoding(member, rule, factor)) {
        member = *extended;
        return changed;
      }
    }
    return std::nullopt;
  }
  const encodings::EncodingEntry* entry = encodings::find_encoding(kind_of(encoding));
  const bool maps = std::find(distance_rules().begin(), distance_rules().end(), rule) != distance_rules().end();
  const encodings::EncodingEntry* extension = encodings::find_encoding(maps ? "distance_map" : rule);
  if (entry == nullptr || extension == nullptr || !entry->facts.rotates) return std::nullopt;
  Json below = encoding;
  Json made = {{"kind", extension->name}};
  if (entry->family == encodings::Family::kExtension) {
    if (support::find_field(entry->fields, "over") == nullptr) return std::nullopt;
    if (factor == 1 && extension == entry && !maps) return encoding;
    below = encoding.is_object() ? encoding.value("over", Json("rope")) : Json("rope");
    factor *= factor_of(*entry, encoding);
    const bool keeps_length = support::find_field(extension->fields, "train_length") != nullptr;
    if (keeps_length && encoding.is_object() && encoding.contains("train_length"))
      made["train_length"] = encoding["train_length"];
  }
  if (maps) {
    made["rule"] = rule;
  } else if (support::find_field(extension->fields, "factor") != nullptr && extension->name != "dyn_ntk") {
    made["factor"] = factor;  // dyn_ntk takes it from the length of the text
  }
  for (const char* shared : {"base", "layout"}) {
    if (encoding.is_object() && encoding.contains(shared)) made[shared] = encoding[shared];
  }
  const std::string lower = kind_of(below);
  if (lower != "rope") {
    const support::Field* over = support::find_field(extension->fields, "over");
    bool known = false;
    if (over != nullptr) {
      for (const support::VariantKind& kind : over->kinds) known = known || kind.name == lower;
    }
    if (!known) return std::nullopt;
    Json own = own_options(below);
    own["kind"] = lower;
    made["over"] = std::move(own);
  }
  if (maps && !can_be_built(made)) return std::nullopt;  // over an encoding that does more than rotate
  return made;
}

std::optional<Json> rope_changed(const Json& encoding, const std::string& kind, const Json& options) {
  if (encoding.is_object() && encoding.contains("stack")) {
    Json changed = encoding;
    for (Json& member : changed["stack"]) {
      if (auto made = rope_changed(member, kind, options)) {
        member = std::move(*made);
        return changed;
      }
    }
    return std::nullopt;
  }
  if (kind_of(encoding) != "rope") return std::nullopt;
  Json made = encoding.is_object() ? encoding : Json::object();
  made["kind"] = kind;
  made.update(options);
  return made;
}

Json scaled_encoding(const Json& encoding, double scale) {
  const Json member = {{"kind", "uniform_scale"}, {"scale", scale}};
  if (encoding.is_object() && encoding.contains("stack")) {
    Json changed = encoding;
    changed["stack"].push_back(member);
    return changed;
  }
  return {{"stack", {encoding, member}}};
}

}  // namespace pe::evaluation
