#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "cli/layout.h"
#include "cli/terminal.h"
#include "commands/chosen.h"
#include "commands/chosen_report.h"
#include "commands/commands.h"
#include "commands/power_text.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "statistics/two_level.h"
#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using support::cat;
using support::ConfigError;

const Json* power_table(const Json& report) {
  if (!report.contains("sections")) return nullptr;
  for (const Json& section : report.at("sections")) {
    if (!section.contains("tables")) continue;
    for (const Json& table : section.at("tables")) {
      if (table.value("id", "") == "power") return &table;
    }
  }
  return nullptr;
}

/// A report of a store as a folder of links, which lives as long as this does.
class ReportFolder {
 public:
  explicit ReportFolder(const cli::CommandLine& line, const Scope& scope)
      : folder_(support::unique_sibling(fs::temp_directory_path() / "pe-power")) {
    const pipeline::Store store = open_for_reading(scope.store);
    const pipeline::Inventory inventory = pipeline::read_inventory(store);
    const pipeline::Record record = report_of(store, inventory, chosen_results(line, scope, store, inventory));
    name = record.task;
    for (const pipeline::OutputRecord& output : record.outputs) {
      if (output.collection && store.has_object(output.object)) json = report_json(store.materialise(output, folder_));
      if (json) break;
    }
    print_warnings(store);
  }
  ReportFolder(const ReportFolder&) = delete;
  ~ReportFolder() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string name;
  std::optional<Json> json;

 private:
  fs::path folder_;
};

}  // namespace

Json power_of_report(const Json& report, const PowerQuestion& question) {
  Json measures = Json::array();
  const Json* table = power_table(report);
  if (!table) return measures;
  std::map<std::string, std::size_t> column;
  for (const Json& each : table->at("columns")) column.emplace(each.value("id", ""), column.size());
  for (const char* needed : {"measure", "unit", "length", "seeds", "items", "seed_sd", "item_sd"}) {
    if (column.count(needed) == 0)
      throw support::ArtifactError(cat("its table 'power' has no column '", needed,
                                       "': another version of pe-report wrote it; make the report again"));
  }
  for (const Json& row : table->at("rows")) {
    const auto number = [&](const char* name) {
      const Json& cell = row.at(column.at(name));
      return cell.contains("value") ? cell["value"].get<double>() : std::numeric_limits<double>::quiet_NaN();
    };
    const auto word = [&](const char* name) { return row.at(column.at(name)).value("text", ""); };
    const auto count = [&](const char* name) { return static_cast<std::size_t>(number(name)); };
    // A summary stays one item, however many are asked for.
    const bool summary = !(number("items") > 1);
    const std::size_t items = summary ? 1 : question.items.value_or(count("items"));
    const statistics::NoiseLevels noise{number("seed_sd"), summary ? 0 : number("item_sd")};
    const std::size_t seeds = question.seeds.value_or(count("seeds"));
    // Other counts than the report's are plans, and a pilot's sd is often too small.
    const statistics::NoiseLevels upper = statistics::upper_limit(noise, count("seeds"));
    const double shown = statistics::detectable_difference(question.seeds ? upper : noise, seeds, items);
    const auto json_of = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
    Json measure{
        {"measure", word("measure")},
        {"unit", word("unit")},
        {"length", std::isfinite(number("length")) ? Json(static_cast<std::int64_t>(number("length"))) : Json()},
        {"seeds", seeds},
        {"items", items},
        {"seed_sd", json_of(noise.seed)},
        {"seed_sd_upper", json_of(upper.seed)},
        {"item_sd", json_of(noise.item)},
        {"detectable", json_of(shown)}};
    if (question.difference && std::isfinite(noise.seed)) {
      const std::size_t needed = statistics::seeds_to_detect(*question.difference, upper, items);
      measure["seeds_needed"] = needed > 0 ? Json(needed) : Json();
    }
    measures.push_back(std::move(measure));
  }
  return measures;
}

namespace {

int widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (const std::string& line : support::split(text, '\n')) widest = std::max(widest, support::display_width(line));
  return static_cast<int>(widest);
}

std::string power_rows(const Json& measures, const PowerQuestion& question, bool answers_only) {
  std::vector<std::vector<std::string>> rows{{"measure", "length"}};
  if (!answers_only) rows.front().insert(rows.front().end(), {"seeds", "items", "sd of a seed", "sd of an item"});
  rows.front().push_back("smallest difference");
  if (question.difference) rows.front().push_back(cat("seeds for ", support::shortest(*question.difference)));
  for (const Json& each : measures) {
    const auto number = [&](const char* key) {
      return each[key].is_null() ? std::string("-") : fmt::format("{:.4f}", each[key].get<double>());
    };
    const bool nats = each["unit"] == "nats", summary = each["items"] == 1 && each["item_sd"] == 0;
    std::string shown = number("detectable");
    if (!each["detectable"].is_null()) {
      const double least = each["detectable"];
      shown += nats ? fmt::format(" nats, {:.1f} %{}", 100 * std::expm1(least), answers_only ? "" : " of perplexity")
                    : fmt::format(", {:.1f} points", 100 * least);
    }
    rows.push_back(
        {cli::harmless(each["measure"].get<std::string>()),
         each["length"].is_null() ? std::string("-") : support::with_commas(each["length"].get<std::int64_t>())});
    if (!answers_only)
      rows.back().insert(rows.back().end(), {each["seeds"].dump(), summary ? "-" : each["items"].dump(),
                                             number("seed_sd"), summary ? "-" : number("item_sd")});
    rows.back().push_back(shown);
    if (question.difference)
      rows.back().push_back(!each.contains("seeds_needed")   ? "-"
                            : each["seeds_needed"].is_null() ? (answers_only ? "> 200" : "more than 200, or more items")
                                                             : each["seeds_needed"].dump());
  }
  return table(std::move(rows));
}

}  // namespace

std::string power_text(const Json& measures, const PowerQuestion& question, int columns) {
  std::string out = power_rows(measures, question, false);
  if (columns > 0 && widest_line(out) > columns) out = power_rows(measures, question, true);
  const auto sentence = [&](const char* text) {
    out += columns > 0 ? cli::wrapped(text, columns, 0) : cat(text, "\n");
  };
  sentence(
      "The smallest difference from the baseline is found in 80 % of studies by a two-sided test at 5 %; its noise is "
      "taken from the report's scores.");
  if (question.seeds || question.difference)
    sentence(
        "A study to come is planned with the upper 80 % limit of the sd of a seed: few seeds often show too small a "
        "one.");
  if (std::any_of(measures.begin(), measures.end(), [](const Json& each) { return each["detectable"].is_null(); }))
    sentence("-: the noise of training takes three seeds to know.");
  return out;
}

int power_command(const cli::CommandLine& line) {
  const Scope scope = scope_of(line);
  if (scope.words.size() != 1)
    throw ConfigError(cat("expected one report, found ", scope.words.size()), {"pe-pipeline power", 0, 0, "", 1},
                      "the folder of a report, or a result of a store, as in: pe-pipeline power grid.yml report");
  std::string name = scope.words.front();
  std::optional<Json> report;
  if (names_a_path(name, line.file)) {
    report = report_json(fs::is_directory(name) ? fs::path(name) : fs::absolute(name).parent_path());
  } else {
    ReportFolder opened(line, scope);
    name = opened.name;
    report = std::move(opened.json);
  }
  if (!report)
    throw support::ArtifactError(cat(name, ": expected a report with report.json of pe-report/1, found none"));
  PowerQuestion question;
  const auto count = [](const std::optional<std::int64_t>& given) {
    return given ? std::optional<std::size_t>(static_cast<std::size_t>(*given)) : std::nullopt;
  };
  question.seeds = count(line.seeds);
  question.items = count(line.items);
  question.difference = line.difference;
  const Json measures = power_of_report(*report, question);
  if (line.json)
    print_json({{"schema", "pe-power/1"},
                {"schema_version", 1},
                {"report", name},
                {"power", 0.8},
                {"level", 0.05},
                {"measures", measures}});
  else if (measures.empty())
    print(cat(cli::harmless(name),
              " compares nothing: it takes an encoding and the baseline with results of one measure, or one model with "
              "and without a rule of extension\n"));
  else
    print(power_text(measures, question, ::isatty(STDOUT_FILENO) == 1 ? cli::terminal_size(STDOUT_FILENO).columns : 0));
  return pipeline::kRunDone;
}

}  // namespace pe::commands
