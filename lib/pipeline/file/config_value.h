/// @file
/// A value in a config by its dotted path.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "support/json.h"

namespace pe::pipeline {

/// The value that a dotted path names; null when there is none.
inline const Json* find_value(const Json& config, std::string_view dotted) {
  const Json* at = &config;
  while (true) {
    if (!at->is_object()) return nullptr;
    const auto dot = dotted.find('.');
    const auto it = at->find(std::string(dotted.substr(0, dot)));
    if (it == at->end()) return nullptr;
    at = &*it;
    if (dot == std::string_view::npos) return at;
    dotted.remove_prefix(dot + 1);
  }
}

/// Whether a config has all these values, or one of each list. A list of the config needs one of them. null: any value
/// that is not the default; []: the default.
inline bool holds(const Json& when, const Json& config) {
  const auto items = [](const Json& value) { return value.is_array() ? value : Json::array({value}); };
  for (const auto& [key, wanted] : when.items()) {
    const Json* value = find_value(config, key);
    const bool given = value && *value != Json::array();
    if (wanted.is_null() || wanted == Json::array()) {
      if (given != wanted.is_null()) return false;
      continue;
    }
    if (!value) return false;
    bool found = wanted == *value;  // 0 and 0.0 are equal here, whichever way the description wrote it
    for (const Json& one : items(wanted)) {
      for (const Json& own : items(*value)) found = found || one == own;
    }
    if (!found) return false;
  }
  return true;
}

inline Json* find_value(Json& config, std::string_view dotted) {
  return const_cast<Json*>(find_value(std::as_const(config), dotted));
}

/// Takes the value that a dotted path names out of a config; groups that become empty go too. Returns the value, or
/// null when there is none.
inline Json take_value(Json& config, const std::string& dotted) {
  const std::size_t dot = dotted.find('.');
  const auto it = config.is_object() ? config.find(dotted.substr(0, dot)) : config.end();
  if (it == config.end()) return nullptr;
  Json value = dot == std::string::npos ? std::move(*it) : take_value(*it, dotted.substr(dot + 1));
  if (dot == std::string::npos || (it->is_object() && it->empty())) config.erase(it);
  return value;
}

}  // namespace pe::pipeline
