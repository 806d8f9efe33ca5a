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
                           : Cell::missing("–", "neither its log nor that of the training that it continues says it");
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

/// As it was set, and else as it was logged, where numbers went through less precision.
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

}  // namespace

Section setup_section(const Results& results, Palette&) {
  Section section{.id = "setup", .title = "Setup"};
  if (results.curves.empty()) return section;
  Table table{.id = "setup", .title = "Trained models"};
  std::vector<std::pair<std::string, std::string>> kinds;  // encoding, variant: as in other tables
  std::set<std::string> variants;
  for (const Curve& curve : results.curves) {
    const std::pair kind{curve.run.encoding, curve.run.variant};
    variants.insert(curve.run.variant);
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  table.columns = {{.id = "encoding", .header = "Encoding", .text = true}};
  if (variants.size() > 1) table.columns.push_back({.id = "variant", .header = "Variant", .text = true});
  const std::pair<const char*, const char*> sizes[] = {
      {"model.width", "Width"}, {"model.layers", "Layers"}, {"model.heads", "Heads"}};
  table.columns.push_back({.id = "parameters", .header = "Parameters", .style = NumberStyle::kTokens});
  for (const auto& [key, header] : sizes)
    table.columns.push_back({.id = std::string(key).substr(6), .header = header, .style = NumberStyle::kCount});
  table.columns.insert(table.columns.end(), {{.id = "context", .header = "Context", .style = NumberStyle::kCount},
                                             {.id = "batch", .header = "Batch", .style = NumberStyle::kCount},
                                             {.id = "steps", .header = "Steps", .style = NumberStyle::kCount},
                                             {.id = "tokens", .header = "Tokens", .style = NumberStyle::kTokens},
                                             {.id = "peak_lr", .header = "Peak LR", .text = true},
                                             {.id = "schedule", .header = "Schedule", .text = true},
                                             {.id = "vocabulary", .header = "Vocabulary", .style = NumberStyle::kCount},
                                             {.id = "data", .header = "Data", .text = true},
                                             {.id = "seeds", .header = "Seeds", .text = true}});
  for (const auto& [encoding, variant] : kinds) {
    std::vector<std::string> seeds;
    const Curve* first = nullptr;
    double tokens = 0;
    for (const Curve& curve : results.curves) {
      if (curve.run.encoding != encoding || curve.run.variant != variant) continue;
      if (!first) first = &curve;
      seeds.push_back(curve.run.seed);
      for (const auto* points : {&curve.train, &curve.validation}) {
        if (!points->empty()) tokens = std::max(tokens, points->back().tokens);
      }
    }
    Row row{.cells = {Cell::of_text(encoding)}};
    if (variants.size() > 1) row.cells.push_back(Cell::of_text(variant));
    const Json& facts = first->run.facts;
    const auto fact = [&](const char* name) { return facts.contains(name) ? facts[name] : Json(); };
    row.cells.push_back(number_cell(fact("parameters")));
    for (const auto& [key, header] : sizes) row.cells.push_back(number_cell(setting_of(*first, key)));
    row.cells.push_back(number_cell(fact("length")));
    row.cells.push_back(number_cell(batch_of(*first)));
    row.cells.push_back(number_cell(fact("step")));
    row.cells.push_back(tokens > 0 ? Cell::of_number(tokens) : Cell::missing("–", "not logged"));
    row.cells.push_back(Cell::of_text(peak_rate_of(*first)));
    row.cells.push_back(Cell::of_text(text_of(schedule_of(*first))));
    row.cells.push_back(
        number_cell(setting_of(*first, "model.vocabulary").is_number() && setting_of(*first, "model.vocabulary") != 0
                        ? setting_of(*first, "model.vocabulary")
                        : Json()));
    row.cells.push_back(Cell::of_text(data_name(results, *first, data_of(*first))));
    row.cells.push_back(Cell::of_text(support::join(seeds, ", ")));
    table.rows.push_back(std::move(row));
  }
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
          "Settings that differ between models beside encoding and seed are in the checks of the comparison.");
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace pe::report
