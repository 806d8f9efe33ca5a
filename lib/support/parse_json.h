/// @file
/// JSON text becomes values, within bounds; no other place of lib/ parses JSON. A text from outside may be nested so
/// deeply that every later walk over its values overflows the stack, or hold so many values that memory runs out.
#pragma once

#include <cstddef>
#include <string_view>

#include "support/json.h"

namespace pe::support {

/// Bounds of a JSON text. They hold before the first value is made.
struct JsonBounds {
  int depth = 128;                ///< objects and arrays within each other; YAML allows 64
  std::size_t values = 1u << 25;  ///< objects, arrays, texts, numbers, truths and nulls, all together
  std::size_t bytes = std::size_t{1} << 30;
};

/// The bounds of a text that another program writes: an answer of a stage, a message, an answer of a server.
inline constexpr JsonBounds kForeignJson{.depth = 64, .values = 1u << 20, .bytes = 64u << 20};

/// The value of a text. `Json::is_discarded()` holds for it when the text is no JSON or is out of bounds.
/// @param take  sees each value, as the callback of `Json::parse` does; false leaves the value out
Json parse_json(std::string_view text, const JsonBounds& bounds = {}, const Json::parser_callback_t& take = nullptr);

/// The value of a text. @throws Json::exception when the text is no JSON (with the byte) or is out of bounds.
Json require_json(std::string_view text, const JsonBounds& bounds = {});

/// The word for a text that `parse_json` refuses: "is nested deeper than 128 levels"; "is not JSON" where it is that.
std::string json_problem(std::string_view text, const JsonBounds& bounds = {});

}  // namespace pe::support
