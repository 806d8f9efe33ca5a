#include "pipeline/file/path_fields.h"

#include "support/flag_value.h"

namespace pe::pipeline {

using support::Field;
using support::FieldType;
using support::Schema;

namespace {

/// The options of the kind that a variant's value is of; null for a kind that the schema lacks.
const Schema* options_of(const Field& variant, const Json& value) {
  if (!value.is_object() || !value.contains("kind")) return nullptr;
  for (const support::VariantKind& kind : variant.kinds) {
    if (value["kind"] == kind.name) return &kind.fields;
  }
  return nullptr;
}

/// Calls `act(options, value, dotted)` for the value of a variant, or for each one that is stacked.
template <typename Act>
void for_each_kind(const Field& variant, Json& value, const std::string& dotted, const Act& act) {
  if (value.is_object() && value.contains("stack") && value["stack"].is_array()) {
    std::size_t at = 0;
    for (Json& one : value["stack"]) for_each_kind(variant, one, dotted + ".stack." + std::to_string(at++), act);
  } else if (const Schema* options = options_of(variant, value)) {
    act(*options, value, dotted);
  }
}

void visit_all(const Schema& schema, Json& config, const std::string& prefix, bool hashed, const PathVisit& visit) {
  for (const Field& field : schema) {
    const bool may_hold =
        support::takes_paths(&field) || field.type == FieldType::kGroup || field.type == FieldType::kVariant;
    if (!may_hold) continue;
    const auto found = config.find(field.name);
    if (found == config.end()) continue;
    const std::string dotted = prefix.empty() ? field.name : prefix + "." + field.name;
    const bool in_key = hashed && field.options.hashed;
    if (support::takes_paths(&field)) {
      visit(dotted, *found, in_key);
    } else if (field.type == FieldType::kGroup) {
      if (found->is_object()) visit_all(field.fields, *found, dotted, in_key, visit);
    } else {
      for_each_kind(field, *found, dotted, [&](const Schema& options, Json& value, const std::string& at) {
        visit_all(options, value, at, in_key, visit);
      });
    }
  }
}

}  // namespace

void for_each_path(const Schema& schema, Json& config, const PathVisit& visit) {
  if (config.is_object()) visit_all(schema, config, "", true, visit);
}

void erase_paths(const Schema& schema, Json& config) {
  for (const Field& field : schema) {
    const auto found = config.find(field.name);
    if (found == config.end()) continue;
    if (support::takes_paths(&field)) {
      config.erase(found);
    } else if (field.type == FieldType::kGroup && found->is_object()) {
      erase_paths(field.fields, *found);
      if (found->empty()) config.erase(found);
    } else if (field.type == FieldType::kVariant) {
      for_each_kind(field, *found, "",
                    [](const Schema& options, Json& value, const std::string&) { erase_paths(options, value); });
    }
  }
}

}  // namespace pe::pipeline
