/// @file
/// Members of documents that others may have written or damaged: one that is not there, or has another type, is the
/// fallback. Nothing here throws.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "support/json.h"

namespace pe::support {

template <typename T>
T field_or(const Json& json, const char* name, T fallback) {
  if (!json.is_object()) return fallback;
  const auto at = json.find(name);
  if (at == json.end()) return fallback;
  bool fits = false;
  if constexpr (std::is_same_v<T, bool>)
    fits = at->is_boolean();
  else if constexpr (std::is_integral_v<T>)
    fits = at->is_number_integer();
  else if constexpr (std::is_floating_point_v<T>)
    fits = at->is_number();
  else if constexpr (std::is_same_v<T, std::string>)
    fits = at->is_string();
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    fits = at->is_array() && std::all_of(at->begin(), at->end(), [](const Json& item) { return item.is_string(); });
  else
    fits = at->type() == Json(fallback).type();
  return fits ? at->template get<T>() : fallback;
}

/// A text; else an empty one.
inline std::string text_in(const Json& json, const char* name) { return field_or(json, name, std::string()); }

}  // namespace pe::support
