#include "schema/rows.h"

#include <limits>

#include "support/text.h"

namespace pe::schema {

namespace detail {

Json to_json(const artifact::Cell& cell) {
  if (const auto* integer = std::get_if<std::int64_t>(&cell.value())) return *integer;
  if (const auto* real = std::get_if<double>(&cell.value())) return Json::array({support::shortest(*real)});
  if (const auto* text = std::get_if<std::string>(&cell.value())) return *text;
  return nullptr;
}

artifact::Cell cell_from(const Json& json) {
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array() && json.size() == 1 && json[0].is_string()) {
    const std::string text = json[0].get<std::string>();
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (text == "inf" || text == "-inf") return text == "inf" ? kInfinity : -kInfinity;
    return support::parse_real(text).value_or(kMissing);
  }
  return {};
}

}  // namespace detail

Rows& Rows::operator=(const Rows& other) {
  if (this == &other) return *this;
  lists_.clear();
  append(other);
  return *this;
}

void Rows::append(const Rows& other) {
  for (const auto& [name, more] : other.lists_) {
    TableRows& held = lists_[name];
    if (!more.typed) {
      if (held.typed)
        held.typed->append(more.pending);
      else
        held.pending.insert(held.pending.end(), more.pending.begin(), more.pending.end());
    } else if (held.typed) {
      held.typed->append(*more.typed);
    } else {  // its type is known now
      const Json first = std::move(held.pending);
      held.pending = Json::array();
      held.typed = more.typed->empty();
      held.typed->append(first);
      held.typed->append(*more.typed);
    }
  }
}

Json Rows::to_json() const {
  Json all = Json::object();
  for (const auto& [name, held] : lists_) all[name] = held.typed ? held.typed->to_json() : held.pending;
  return all;
}

Rows Rows::from_json(const Json& json) {
  Rows rows;
  if (!json.is_object()) return rows;
  for (const auto& [name, list] : json.items()) {
    if (list.is_array()) rows.lists_[name].pending = list;
  }
  return rows;
}

}  // namespace pe::schema
