#include "artifact/stage_parts.h"

#include <algorithm>

#include "support/error.h"
#include "support/json_fields.h"
#include "support/text.h"

namespace pe::artifact {

using support::cat;

namespace {

Kind kind_member(const Json& object) {
  const std::string name = text_member(object, "kind");
  if (const auto kind = find_kind(name)) return *kind;
  refuse_description(cat("unknown artifact kind ", support::quote(name)));
}

}  // namespace

void refuse_description(const std::string& why) {
  throw support::ConfigError(why, {}, "rebuild the stage together with pe-pipeline");
}

const Json& member(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) refuse_description(cat("the description lacks '", key, "'"));
  return *it;
}

std::string text_member(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_string()) refuse_description(cat("'", key, "' in the description is not a string"));
  return value.get<std::string>();
}

bool flag_member(const Json& object, const char* key) { return support::field_or(object, key, false); }

std::vector<std::string> texts_member(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) return {};
  if (!it->is_array() || !std::all_of(it->begin(), it->end(), [](const Json& item) { return item.is_string(); }))
    refuse_description(cat("'", key, "' in the description is not a list of strings"));
  return it->get<std::vector<std::string>>();
}

const Json& list_member(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_array()) refuse_description(cat("'", key, "' in the description is not a list"));
  if (!std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_object(); }))
    refuse_description(cat("'", key, "' in the description holds something that is not a map"));
  return value;
}

void to_json(Json& json, const InputRole& role) {
  json = {{"name", role.name}, {"kind", kind_name(role.kind)}, {"many", role.many}, {"optional", role.optional}};
}

void from_json(const Json& json, InputRole& role) {
  role = {text_member(json, "name"), kind_member(json), flag_member(json, "many"), flag_member(json, "optional")};
}

void to_json(Json& json, const OutputRole& role) {
  json = {{"name", role.name}, {"kind", kind_name(role.kind)}, {"volatile", role.is_volatile}};
}

void from_json(const Json& json, OutputRole& role) {
  role = {text_member(json, "name"), kind_member(json), flag_member(json, "volatile")};
}

void to_json(Json& json, const Trajectory& trajectory) {
  json = {{"horizon", trajectory.horizon},
          {"tokens_per_step", trajectory.tokens_per_step},
          {"free_when", trajectory.free_when}};
}

void from_json(const Json& json, Trajectory& trajectory) {
  member(json, "tokens_per_step");
  trajectory = {text_member(json, "horizon"), texts_member(json, "tokens_per_step"),
                support::field_or(json, "free_when", Json(Json::object()))};
}

void to_json(Json& json, const Branch& branch) {
  json = {{"horizon", branch.horizon}, {"end", branch.end}, {"share", branch.share}};
}

void from_json(const Json& json, Branch& branch) {
  branch = {text_member(json, "horizon"), text_member(json, "end"), text_member(json, "share")};
}

void to_json(Json& json, const Revision& revision) {
  json = {{"name", revision.name}, {"when", revision.when}, {"number", revision.number}};
}

void from_json(const Json& json, Revision& revision) {
  revision.name = text_member(json, "name");
  revision.when = member(json, "when");
  const Json& number = member(json, "number");
  if (!revision.when.is_object() || revision.when.empty() || !number.is_number_integer())
    refuse_description(
        cat("its revision ", support::quote(revision.name), " lacks an object 'when' or an integer 'number'"));
  revision.number = number.get<int>();
}

}  // namespace pe::artifact
