#include "support/parse_json.h"

#include <string>

#include "support/text.h"

namespace pe::support {

namespace {

/// The bound that a text breaks, as a predicate: "is nested deeper than 128 levels". Empty: it breaks none.
std::string broken_bound(std::string_view text, const JsonBounds& bounds) {
  if (text.size() > bounds.bytes) return cat("is longer than ", bounds.bytes, " bytes");
  int depth = 0;
  std::size_t values = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':
        for (++i; i < text.size() && text[i] != '"'; ++i) {
          if (text[i] == '\\') ++i;
        }
        break;
      case '[':
      case '{':
        if (++depth > bounds.depth) return cat("is nested deeper than ", bounds.depth, " levels");
        ++values;
        break;
      case ']':
      case '}':
        --depth;
        break;
      case ',':
        ++values;
        break;
      default:
        break;
    }
    if (values > bounds.values) return cat("holds more than ", bounds.values, " values");
  }
  return {};
}

}  // namespace

Json parse_json(std::string_view text, const JsonBounds& bounds, const Json::parser_callback_t& take) {
  if (!broken_bound(text, bounds).empty()) return Json(Json::value_t::discarded);
  return Json::parse(text.begin(), text.end(), take, false);
}

Json require_json(std::string_view text, const JsonBounds& bounds) {
  const std::string broken = broken_bound(text, bounds);
  if (!broken.empty()) throw Json::out_of_range::create(408, cat("the JSON text ", broken), nullptr);
  return Json::parse(text.begin(), text.end());
}

std::string json_problem(std::string_view text, const JsonBounds& bounds) {
  const std::string broken = broken_bound(text, bounds);
  return broken.empty() ? "is not JSON" : broken;
}

}  // namespace pe::support
