#include "commands/report_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "cli/terminal.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using support::cat;

/// Columns that say what a row is about, and not what came out.
const std::set<std::string> kNaming = {"encoding", "variant",  "seed",   "protocol", "network", "method",
                                       "tested",   "rule",     "labels", "measure",  "unit",    "task",
                                       "expected", "claim_id", "what",   "length",   "axis"};
/// Names of contents, which differ whenever anything does.
const std::set<std::string> kNames = {"run_id", "hash", "config_hash", "data"};

/// Columns of p values and counts: they move with any number, and have no noise that an interval could tell.
const std::set<std::string> kCounts = {"p",     "p_value",   "p_holm", "seeds", "n",
                                       "items", "documents", "runs",   "keys",  "count"};

/// Two numbers with as many digits as tell them apart, six at least.
std::pair<std::string, std::string> told_apart(double first, double second) {
  for (int digits = 6; digits < 17; ++digits) {
    std::string a = fmt::format("{:.{}g}", first, digits), b = fmt::format("{:.{}g}", second, digits);
    if (a != b) return {a, b};
  }
  return {support::shortest(first), support::shortest(second)};
}

struct NamedRow {
  std::string name;
  Json cells;
};

struct TableView {
  std::string title;
  std::vector<std::string> columns;
  std::vector<NamedRow> rows;
};

std::string shown(const Json& cell) {
  if (cell.contains("value")) return support::shortest(cell["value"].get<double>());
  return cell.value("text", "");
}

/// Columns of the ends of an interval, behind the column of its number.
struct IntervalColumns {
  std::size_t number, low, high;
};

std::optional<IntervalColumns> interval_columns(const std::vector<std::string>& columns) {
  for (const auto& [low, high] : {std::pair("low", "high"), std::pair("ci_lo", "ci_hi")}) {
    const auto at = std::find(columns.begin(), columns.end(), low);
    if (at == columns.begin() || at == columns.end() || at + 1 == columns.end() || *(at + 1) != high) continue;
    const auto place = static_cast<std::size_t>(at - columns.begin());
    return IntervalColumns{place - 1, place, place + 1};
  }
  return std::nullopt;
}

/// A row whose number has its interval in its own cell, as other tables have it. The ends are no numbers then.
Json with_interval(Json cells, const std::optional<IntervalColumns>& columns) {
  if (!columns || columns->high >= cells.size()) return cells;
  const auto end = [&](std::size_t column) { return cells[column].value("value", Json()); };
  cells[columns->number]["interval"] = {end(columns->low), end(columns->high)};
  for (const std::size_t column : {columns->low, columns->high}) cells[column] = Json::object();
  return cells;
}

TableView view_of(const Json& table) {
  TableView view{table.value("title", ""), {}, {}};
  for (const Json& column : table.at("columns")) view.columns.push_back(column.value("id", ""));
  const auto interval = interval_columns(view.columns);
  std::map<std::string, int> seen;
  for (const Json& cells : table.at("rows")) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < cells.size() && i < view.columns.size(); ++i) {
      if (kNaming.count(view.columns[i])) parts.push_back(shown(cells[i]));
    }
    std::string name = support::join(parts, ", ");
    if (const int number = ++seen[name]; number > 1) name += cat(" (", number, ")");
    view.rows.push_back({std::move(name), with_interval(cells, interval)});
  }
  return view;
}

std::map<std::string, TableView> tables_of(const Json& report) {
  std::map<std::string, TableView> tables;
  if (!report.contains("sections")) return tables;
  for (const Json& section : report.at("sections")) {
    if (!section.contains("tables")) continue;
    for (const Json& table : section.at("tables")) tables.emplace(table.value("id", ""), view_of(table));
  }
  return tables;
}

/// Half of the 95 % interval; nothing where the number has none.
std::optional<double> half_width_of(const Json& cell) {
  if (cell.contains("half_width")) return cell["half_width"].get<double>();
  if (cell.contains("interval") && cell["interval"].size() == 2 && cell["interval"][0].is_number() &&
      cell["interval"][1].is_number())
    return (cell["interval"][1].get<double>() - cell["interval"][0].get<double>()) / 2;
  return std::nullopt;
}

/// Settings of each encoding and variant, as its trainings had them.
std::map<std::string, Json> settings_of(const Json& report) {
  std::map<std::string, Json> settings;
  const Json study = report.value("study", Json::object());
  for (const Json& training : study.value("trainings", Json::array())) {
    if (!training.contains("config")) continue;
    const auto index = training["config"].get<std::size_t>();
    const std::string variant = training.value("variant", "");
    const Json& configs = study.at("configs");
    if (index < configs.size())
      settings.emplace(cat(training.value("encoding", ""), variant.empty() ? "" : ", ", variant), configs[index]);
  }
  return settings;
}

std::string baseline_of(const Json& report) { return report.value("study", Json::object()).value("baseline", ""); }

std::set<std::string> runs_of(const Json& report) {
  std::set<std::string> runs;
  const Json study = report.value("study", Json::object());
  for (const Json& run : study.value("runs", Json::array())) {
    const std::string variant = run.value("variant", ""), seed = run.value("seed", "");
    runs.insert(
        cat(run.value("encoding", ""), variant.empty() ? "" : ", ", variant, seed.empty() ? "" : ", seed ", seed));
  }
  return runs;
}

template <typename Keys>
void only_one_side(const Keys& first, const Keys& second, const std::string& what, Json& json) {
  const auto missing = [](const Keys& from, const Keys& in) {
    Json names = Json::array();
    for (const auto& name : from) {
      if (!in.count(name)) names.push_back(name);
    }
    return names;
  };
  json["only_first"][what] = missing(first, second);
  json["only_second"][what] = missing(second, first);
}

void compare_cells(const std::string& table, const std::string& row, const std::string& column, const Json& a,
                   const Json& b, Json& json) {
  const bool numbers = a.contains("value") && b.contains("value");
  if (!numbers) {
    if (shown(a) != shown(b))
      json["texts"].push_back(
          {{"table", table}, {"row", row}, {"column", column}, {"first", shown(a)}, {"second", shown(b)}});
    return;
  }
  const double first = a["value"], second = b["value"];
  json["compared"] = json["compared"].get<std::int64_t>() + 1;
  if (first == second) return;
  Json change{{"table", table}, {"row", row}, {"column", column}, {"first", first}, {"second", second}};
  const auto own = half_width_of(a), other = half_width_of(b);
  if (own && other && std::hypot(*own, *other) > 0)
    change["noises"] = std::abs(second - first) / std::hypot(*own, *other);
  json["numbers"].push_back(std::move(change));
}

}  // namespace

Json report_differences(const Json& first, const Json& second) {
  Json json{{"schema", "pe-report-diff/1"}, {"schema_version", 1},    {"compared", 0},
            {"numbers", Json::array()},     {"texts", Json::array()}, {"settings", Json::array()}};
  auto a = tables_of(first), b = tables_of(second);
  const std::string base = baseline_of(first), other_base = baseline_of(second);
  if (base != other_base) {
    json["settings"].push_back({{"model", "report"}, {"setting", "baseline"}, {"first", base}, {"second", other_base}});
    for (auto* tables : {&a, &b}) tables->erase("differences");  // from other baselines: other quantities
  }
  std::set<std::string> tables_a, tables_b, rows_a, rows_b;
  for (const auto& [id, view] : a) tables_a.insert(id);
  for (const auto& [id, view] : b) tables_b.insert(id);
  for (const auto& [id, mine] : a) {
    const auto found = b.find(id);
    if (found == b.end()) continue;
    const TableView& other = found->second;
    std::map<std::string, const Json*> rows;
    for (const NamedRow& row : other.rows) {
      rows[row.name] = &row.cells;
      rows_b.insert(cat(id, ": ", row.name));
    }
    for (const NamedRow& row : mine.rows) {
      rows_a.insert(cat(id, ": ", row.name));
      const auto partner = rows.find(row.name);
      if (partner == rows.end()) continue;
      for (std::size_t c = 0; c < mine.columns.size(); ++c) {
        const auto place = std::find(other.columns.begin(), other.columns.end(), mine.columns[c]);
        if (place == other.columns.end() || kNaming.count(mine.columns[c]) || kNames.count(mine.columns[c])) continue;
        compare_cells(id, row.name, mine.columns[c], row.cells.at(c),
                      partner->second->at(static_cast<std::size_t>(place - other.columns.begin())), json);
      }
    }
  }
  only_one_side(tables_a, tables_b, "tables", json);
  only_one_side(rows_a, rows_b, "rows", json);
  only_one_side(runs_of(first), runs_of(second), "runs", json);
  const auto settings_a = settings_of(first), settings_b = settings_of(second);
  for (const auto& [model, mine] : settings_a) {
    const auto other = settings_b.find(model);
    if (other == settings_b.end()) continue;
    std::set<std::string> keys;
    for (const Json* side : {&mine, &other->second}) {
      for (const auto& [key, value] : side->items()) keys.insert(key);
    }
    for (const std::string& key : keys) {
      const Json x = mine.value(key, Json()), y = other->second.value(key, Json());
      if (x != y) json["settings"].push_back({{"model", model}, {"setting", key}, {"first", x}, {"second", y}});
    }
  }
  // The largest first. Numbers without noise come last, in their original order.
  auto& numbers = json["numbers"].get_ref<Json::array_t&>();
  std::stable_sort(numbers.begin(), numbers.end(),
                   [](const Json& x, const Json& y) { return x.value("noises", -1.0) > y.value("noises", -1.0); });
  return json;
}

std::string report_differences_text(const Json& differences, const cli::Style& style, std::size_t most) {
  std::string out;
  const auto listed = [&](const Json& list, const auto& line) {
    std::size_t count = 0;
    for (const Json& each : list) {
      if (count++ == most) break;
      out += cat("  ", cli::harmless(line(each)), "\n");
    }
    if (list.size() > most) out += cat("  and ", list.size() - most, " more\n");
  };
  const auto text = [](const Json& value) {
    return value.is_null() ? std::string("(none)") : value.is_string() ? value.get<std::string>() : value.dump();
  };
  const auto place = [](const Json& each) {
    return cat(each["table"].get<std::string>(), "  ", each["row"].get<std::string>(), "  ",
               each["column"].get<std::string>());
  };
  std::map<std::string, Json> kinds{
      {"beyond", Json::array()}, {"within", Json::array()}, {"unknown", Json::array()}, {"counts", Json::array()}};
  for (const Json& change : differences["numbers"]) {
    if (!change.contains("noises") && kCounts.count(change["column"].get<std::string>())) {
      kinds["counts"].push_back(change);
      continue;
    }
    kinds[!change.contains("noises")           ? "unknown"
          : change["noises"].get<double>() > 1 ? "beyond"
                                               : "within"]
        .push_back(change);
  }
  const std::size_t beyond = kinds["beyond"].size();
  const std::size_t alone = differences["only_first"]["rows"].size() + differences["only_second"]["rows"].size();
  out += cat("numbers   ", differences["compared"].get<std::int64_t>(), " compared: ",
             beyond > 0 ? style.bad(cat(beyond, " changed beyond noise")) : style.good("none changed beyond noise"),
             ", ", kinds["within"].size(), " within, ", kinds["unknown"].size(), " without a known noise",
             kinds["counts"].empty() ? "" : cat(", ", kinds["counts"].size(), " p values and counts"),
             alone == 0 ? "" : cat("; ", alone, alone == 1 ? " row is" : " rows are", " in one of the reports only"),
             "\n");
  const auto number = [&](const Json& each) {
    const auto [before, after] = told_apart(each["first"].get<double>(), each["second"].get<double>());
    std::string line = cat(place(each), ": ", before, " -> ", after);
    if (each.contains("noises"))
      line += cat("  (", support::shortest(std::round(100 * each["noises"].get<double>()) / 100),
                  " times the noise of both)");
    return line;
  };
  listed(kinds["beyond"], number);
  if (kinds["unknown"].size() > 0) out += "numbers without a known noise\n";
  listed(kinds["unknown"], number);
  if (!differences["texts"].empty()) out += "words\n";
  listed(differences["texts"],
         [&](const Json& each) { return cat(place(each), ": ", text(each["first"]), " -> ", text(each["second"])); });
  if (!differences["settings"].empty()) out += "settings\n";
  listed(differences["settings"], [&](const Json& each) {
    return cat(each["model"].get<std::string>(), "  ", each["setting"].get<std::string>(), ": ", text(each["first"]),
               " -> ", text(each["second"]));
  });
  for (const auto& [side, words] : {std::pair<const char*, const char*>{"only_first", "only in the first"},
                                    {"only_second", "only in the second"}}) {
    for (const char* what : {"runs", "tables", "rows"}) {
      const Json& names = differences[side][what];
      if (names.empty()) continue;
      out += cat(what, " ", words, "\n");
      listed(names, [&](const Json& name) { return name.get<std::string>(); });
    }
  }
  return out;
}

}  // namespace pe::commands
