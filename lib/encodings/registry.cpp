#include "encodings/registry.h"

#include "encodings/attention/stack.h"
#include "encodings/builtin_table.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

using support::cat;
using support::ConfigError;

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const EncodingEntry& entry : encodings()) {
    names.push_back(entry.name);
    names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
  }
  return names;
}

const EncodingEntry& entry_named(const std::string& name) {
  if (const EncodingEntry* entry = find_encoding(name)) return *entry;
  throw ConfigError(cat("unknown encoding ", support::quote(name)), {}, support::suggestion(name, all_names()));
}

void check_shape(const Shape& shape) {
  if (shape.query_heads < 1 || shape.key_value_heads < 1 || shape.query_heads % shape.key_value_heads != 0) {
    throw ConfigError(
        cat(shape.query_heads, " query heads cannot share ", shape.key_value_heads, " key/value heads evenly"));
  }
  if (shape.width < 1 || shape.head_width < 1 || shape.layers < 1) {
    throw ConfigError(cat("a model of ", shape.layers, " layers, width ", shape.width, " and head width ",
                          shape.head_width, ": each must be at least 1"));
  }
}

struct NamedEncoding {
  const EncodingEntry* entry;
  Json options;  // without "kind"
};

NamedEncoding member(const Json& value) {
  if (value.is_string()) return {&entry_named(value.get<std::string>()), Json::object()};
  if (!value.is_object() || !value.contains("kind") || !value["kind"].is_string()) {
    throw ConfigError(cat("an encoding is a name or a map with 'kind', found ", value.dump()));
  }
  NamedEncoding named{&entry_named(value["kind"].get<std::string>()), value};
  named.options.erase("kind");
  std::vector<std::string> known;
  for (const support::Field& field : named.entry->fields) known.push_back(field.name);
  for (const auto& [key, option] : named.options.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw ConfigError(cat("encoding '", named.entry->name, "' has no option ", support::quote(key)), {},
                      known.empty() ? "it has no options" : support::suggestion(key, known));
  }
  return named;
}

const Json* stack_of(const Json& value) {
  if (!value.is_object() || !value.contains("stack")) return nullptr;
  const Json& members = value["stack"];
  if (value.size() != 1 || !members.is_array() || members.empty()) {
    throw ConfigError(cat("a stack is {stack: [encoding, …]} with at least one member, found ", value.dump()));
  }
  return &members;
}

}  // namespace

std::string_view family_name(Family family) {
  switch (family) {
    case Family::kUnnamed:
      return "";
    case Family::kBaseline:
      return "baseline";
    case Family::kAbsolute:
      return "absolute";
    case Family::kRotary:
      return "rotary";
    case Family::kExtension:
      return "context extension";
    case Family::kPositionMap:
      return "position map";
    case Family::kBias:
      return "bias";
    case Family::kTemperature:
      return "temperature";
    case Family::kSink:
      return "sink";
    case Family::kContent:
      return "content";
    case Family::kCombination:
      return "combination";
  }
  return "";
}

const std::vector<EncodingEntry>& encodings() {
  static const std::vector<EncodingEntry> sorted = [] {
    std::vector<EncodingEntry> entries = builtin_encodings();
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return entries;
  }();
  return sorted;
}

const EncodingEntry* find_encoding(std::string_view name) {
  for (const EncodingEntry& entry : encodings()) {
    if (entry.name == name || std::find(entry.aliases.begin(), entry.aliases.end(), name) != entry.aliases.end()) {
      return &entry;
    }
  }
  return nullptr;
}

std::vector<support::VariantKind> variant_kinds() {
  std::vector<support::VariantKind> kinds;
  for (const EncodingEntry& entry : encodings()) {
    Json facts = entry.facts.to_json();
    facts["reference"] = entry.reference;
    facts["family"] = family_name(entry.family);
    facts["acts_on"] = entry.acts_on;
    facts["parameters"] = entry.parameters;
    facts["formula"] = entry.formula;
    facts["known_for"] = entry.known_for;
    facts["errata"] = entry.errata;
    // A stack that has two such members is refused where its config is read, with the line.
    if (entry.facts.rotates) facts["exclusive"] = {"rotate queries and keys"};
    kinds.push_back({.name = entry.name,
                     .aliases = entry.aliases,
                     .summary = entry.summary,
                     .fields = entry.fields,
                     .facts = std::move(facts)});
  }
  return kinds;
}

std::unique_ptr<PositionalEncoding> make_encoding(const Json& value, const Shape& shape) {
  check_shape(shape);
  if (const Json* members = stack_of(value)) {
    std::vector<StackMember> made;
    for (const Json& item : *members) {
      const NamedEncoding named = member(item);
      made.push_back({named.entry->name, named.entry->make(named.options, shape)});
    }
    return make_stack(std::move(made), shape);
  }
  const NamedEncoding named = member(value);
  return named.entry->make(named.options, shape);
}

int heads_per_query(const Json& value) {
  if (value.is_object() && value.contains("stack") && value["stack"].is_array()) {
    int product = 1;
    for (const Json& item : value["stack"]) product *= heads_per_query(item);
    return product;
  }
  const Json* name = value.is_string()                             ? &value
                     : value.is_object() && value.contains("kind") ? &value["kind"]
                                                                   : nullptr;
  const EncodingEntry* entry = name && name->is_string() ? find_encoding(name->get_ref<const std::string&>()) : nullptr;
  return entry ? entry->facts.heads_per_query : 1;
}

std::string encoding_name(const Json& value) {
  const Json* members = stack_of(value);
  if (members == nullptr) return member(value).entry->name;
  std::vector<std::string> names;
  for (const Json& item : *members) names.push_back(member(item).entry->name);
  return support::join(names, "+");
}

}  // namespace pe::encodings
