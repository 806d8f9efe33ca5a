/// @file
/// The text of a JSON document.
#pragma once

#include <string>

#include "support/json.h"

namespace pe::support {

/// Bytes that are no UTF-8 are replaced. @param indent  spaces for each level; -1: one line
inline std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pe::support
