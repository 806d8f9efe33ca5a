#include "evaluation/journal.h"

#include <limits>

#include "support/files.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using artifact::Cell;

/// Integers and texts as they are, reals as text in a list, since JSON has no inf.
Json to_json(const Cell& cell) {
  if (const auto* integer = std::get_if<std::int64_t>(&cell.value())) return *integer;
  if (const auto* real = std::get_if<double>(&cell.value())) return Json::array({support::shortest(*real)});
  if (const auto* text = std::get_if<std::string>(&cell.value())) return *text;
  return nullptr;
}

Cell cell_from(const Json& json) {
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array() && json.size() == 1 && json[0].is_string()) {
    const std::string text = json[0].get<std::string>();
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (text == "inf" || text == "-inf") return text == "inf" ? kInfinity : -kInfinity;
    return support::parse_real(text).value_or(std::numeric_limits<double>::quiet_NaN());
  }
  return {};
}

Rows rows_from(const Json& json) {
  Rows rows;
  for (const auto& [table, list] : json.items()) {
    for (const Json& line : list) {
      Row row;
      for (const Json& cell : line) row.push_back(cell_from(cell));
      rows[table].push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace

Journal::Journal(std::filesystem::path path, std::string identity) : path_(std::move(path)) {
  std::string kept;
  if (std::filesystem::exists(path_)) {
    bool first = true;
    for (const std::string& line : support::split(support::read_file(path_), '\n')) {
      const Json entry = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!entry.is_object()) break;
      if (first) {
        if (entry.value("identity", "") != identity) break;
        first = false;
      } else {
        if (!entry.contains("item") || !entry.contains("rows")) break;
        items_[entry["item"].get<std::string>()] = rows_from(entry["rows"]);
      }
      kept += line + "\n";
    }
  }
  recovered_ = items_.size();
  if (kept.empty()) kept = Json{{"schema", "pe-evaluation-journal/1"}, {"identity", identity}}.dump() + "\n";
  support::write_file_atomically(path_, kept, /*durable=*/false);
}

const Rows& Journal::item(const std::string& name, const std::function<Rows()>& work) {
  auto found = items_.find(name);
  if (found == items_.end()) {
    if (support::stop_requested()) throw support::Stopped(/*resumable=*/true);
    found = items_.emplace(name, work()).first;
    Json tables = Json::object();
    for (const auto& [table, list] : found->second) {
      Json& into = tables[table] = Json::array();
      for (const Row& row : list) {
        Json line = Json::array();
        for (const Cell& cell : row) line.push_back(to_json(cell));
        into.push_back(std::move(line));
      }
    }
    support::append_file(path_, Json{{"item", name}, {"rows", std::move(tables)}}.dump() + "\n");
  }
  add(found->second);
  return found->second;
}

void Journal::add(const Rows& rows) {
  for (const auto& [table, list] : rows) {
    auto& into = rows_[table];
    into.insert(into.end(), list.begin(), list.end());
  }
}

}  // namespace pe::evaluation
