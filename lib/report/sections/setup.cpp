// The trained models: a line for each, with the settings that a comparison with other models needs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/results/training_curves.h"
#include "report/sections/section.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

Cell number_cell(const Json& value) {
  return value.is_number() ? Cell::of_number(value.get<double>())
                           : Cell::missing("–", "not in its log, nor in the log of the training that it continues");
}

std::string text_of(const Json& value) {
  if (value.is_null()) return "–";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// A setting of the group that this training was made with ("train", or "decay" and such of branches).
Json of_own_group(const Curve& curve, const std::string& key) {
  if (!curve.config.is_object()) return {};
  Json found;
  for (const auto& [group, settings] : curve.config.items()) {
    if (group == "model" || !settings.is_object() || !settings.contains(key)) continue;
    if (found.is_null() || group != "train") found = settings[key];
  }
  return found;
}

/// The setting, else the logged number, which has less precision.
std::string peak_rate_of(const Curve& curve) {
  const Json set = of_own_group(curve, "peak_lr");
  if (set.is_number() && set.get<double>() > 0) return support::shortest(set.get<double>());
  return std::isfinite(curve.peak_rate) ? fmt::format("{:.4g}", curve.peak_rate) : "–";
}

Json schedule_of(const Curve& curve) { return of_own_group(curve, "schedule"); }

/// First digits of the content digests of its data.
std::string data_of(const Curve& curve) {
  const Json digests = support::parse_json(curve.data);
  if (!digests.is_array()) return "–";
  std::vector<std::string> names;
  for (const Json& digest : digests) {
    if (digest.is_string()) names.push_back(digest.get<std::string>().substr(0, 12));
  }
  return names.empty() ? "–" : support::join(names, ", ");
}

const std::pair<const char*, const char*> kSizes[] = {
    {"model.width", "Width"}, {"model.layers", "Layers"}, {"model.heads", "Heads"}};

std::vector<Column> setup_columns(bool with_variant) {
  std::vector<Column> columns = arm_columns(with_variant);
  columns.push_back({.id = "parameters", .header = "Parameters", .style = NumberStyle::kTokens});
  for (const auto& [key, header] : kSizes)
    columns.push_back({.id = std::string(key).substr(6), .header = header, .style = NumberStyle::kCount});
  columns.insert(columns.end(), {{.id = "context", .header = "Context", .style = NumberStyle::kCount},
                                 {.id = "batch", .header = "Batch", .style = NumberStyle::kCount},
                                 {.id = "steps", .header = "Steps", .style = NumberStyle::kCount},
                                 {.id = "tokens", .header = "Tokens", .style = NumberStyle::kTokens},
                                 {.id = "peak_lr", .header = "Peak LR", .text = true},
                                 {.id = "schedule", .header = "Schedule", .text = true},
                                 {.id = "vocabulary", .header = "Vocabulary", .style = NumberStyle::kCount},
                                 {.id = "data", .header = "Data", .text = true},
                                 {.id = "seeds", .header = "Seeds", .text = true}});
  return columns;
}

/// `curves`: the trainings of one encoding and variant, by seed.
Row setup_row(const Results& results, const std::vector<const Curve*>& curves, bool with_variant) {
  std::vector<std::string> seeds;
  double tokens = 0;
  for (const Curve* curve : curves) {
    seeds.push_back(curve->run.seed);
    tokens = std::max(tokens, last_tokens(*curve));
  }
  const Curve& first = *curves.front();
  Row row{.cells = arm_cells(first.run.encoding, first.run.variant, with_variant),
          .trainings = places_of(results, curves)};
  const Json& facts = first.run.facts;
  const auto fact = [&](const char* name) { return facts.contains(name) ? facts[name] : Json(); };
  const Json vocabulary = setting_of(first, "model.vocabulary");
  row.cells.push_back(number_cell(fact("parameters")));
  for (const auto& [key, header] : kSizes) row.cells.push_back(number_cell(setting_of(first, key)));
  row.cells.push_back(number_cell(fact("length")));
  row.cells.push_back(number_cell(batch_of(first)));
  row.cells.push_back(number_cell(fact("step")));
  row.cells.push_back(tokens > 0 ? Cell::of_number(tokens) : Cell::missing("–", "not logged"));
  row.cells.push_back(Cell::of_text(peak_rate_of(first)));
  row.cells.push_back(Cell::of_text(text_of(schedule_of(first))));
  row.cells.push_back(number_cell(vocabulary.is_number() && vocabulary != 0 ? vocabulary : Json()));
  row.cells.push_back(Cell::of_text(data_name(results, first, data_of(first))));
  row.cells.push_back(Cell::of_text(support::join(seeds, ", ")));
  return row;
}

}  // namespace

Section setup_section(const Results& results, Palette&) {
  Section section{.id = "setup", .title = "Setup"};
  if (results.curves.empty()) return section;
  Table table{.id = "setup", .title = "Trained models"};
  const auto curves = pointers_to(results.curves);
  const bool with_variant = variants_of(curves).size() > 1;
  table.columns = setup_columns(with_variant);
  for (const auto& [encoding, variant] : arms_of(curves))
    table.rows.push_back(setup_row(results, curves_of(curves, encoding, variant), with_variant));
  // A column that no training fills is no news.
  for (std::size_t c = table.columns.size(); c-- > 0;) {
    if (table.columns[c].id != "vocabulary") continue;
    if (std::any_of(table.rows.begin(), table.rows.end(),
                    [&](const Row& row) { return row.cells[c].number.has_value(); }))
      continue;
    table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(c));
    for (Row& row : table.rows) row.cells.erase(row.cells.begin() + static_cast<std::ptrdiff_t>(c));
  }
  table.caption =
      cat("Tokens and steps at the end of each training; context: tokens of a training window; data: its name "
          "(`data_names` in the report's config), else the first digits of the content digests of its token shards. "
          "Settings other than encoding and seed that differ between models are in the checks of the comparison.");
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace pe::report
