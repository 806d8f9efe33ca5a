/// @file
/// Rules of the encoding distance_map, which `extended_encoding` takes by their names too.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace pe::evaluation {

/// They find their own factor from the length.
inline const std::vector<std::string>& distance_rules() {
  static const std::vector<std::string> rules = {"rerope", "leaky_rerope", "self_extend", "dca", "lm_infinite"};
  return rules;
}

inline bool is_distance_rule(const std::string& name) {
  return std::find(distance_rules().begin(), distance_rules().end(), name) != distance_rules().end();
}

}  // namespace pe::evaluation
