// What was trained: a line for each model, with what a reader needs to compare it with models elsewhere.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

/// A setting of a training's config by dotted key; null where it does not have it.
Json setting(const Curve& curve, const std::string& key) {
  const Json* at = &curve.config;
  for (const std::string& part : support::split(key, '.')) {
    if (!at->is_object() || !at->contains(part)) return {};
    at = &(*at)[part];
  }
  return *at;
}

Cell number_cell(const Json& value) {
  return value.is_number() ? Cell::of_number(value.get<double>()) : Cell::missing("–", "the training log does not say");
}

std::string text_of(const Json& value) {
  if (value.is_null()) return "–";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

Section setup_section(const Results& results, Palette&) {
  Section section{.id = "setup", .title = "Setup"};
  if (results.curves.empty()) return section;
  Table table{.id = "setup", .title = "What was trained"};
  std::vector<std::pair<std::string, std::string>> kinds;   // encoding, variant: as in other tables
  std::set<std::string> variants;
  for (const Curve& curve : results.curves) {
    const std::pair kind{curve.run.encoding, curve.run.variant};
    variants.insert(curve.run.variant);
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  table.columns = {{.id = "encoding", .header = "Encoding", .text = true}};
  if (variants.size() > 1) table.columns.push_back({.id = "variant", .header = "Variant", .text = true});
  const std::pair<const char*, const char*> sizes[] = {{"model.width", "Width"}, {"model.layers", "Layers"}, {"model.heads", "Heads"}};
  table.columns.push_back({.id = "parameters", .header = "Parameters", .style = NumberStyle::kTokens});
  for (const auto& [key, header] : sizes) table.columns.push_back({.id = std::string(key).substr(6), .header = header, .style = NumberStyle::kCount});
  table.columns.insert(table.columns.end(), {{.id = "context", .header = "Context", .style = NumberStyle::kCount},
                                             {.id = "batch", .header = "Batch", .style = NumberStyle::kCount},
                                             {.id = "steps", .header = "Steps", .style = NumberStyle::kCount},
                                             {.id = "tokens", .header = "Tokens", .style = NumberStyle::kTokens},
                                             {.id = "peak_lr", .header = "Peak LR", .text = true},
                                             {.id = "schedule", .header = "Schedule", .text = true},
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
    for (const auto& [key, header] : sizes) row.cells.push_back(number_cell(setting(*first, key)));
    row.cells.push_back(number_cell(fact("length")));
    row.cells.push_back(number_cell(setting(*first, "train.batch")));
    row.cells.push_back(number_cell(fact("step")));
    row.cells.push_back(tokens > 0 ? Cell::of_number(tokens) : Cell::missing("–", "not logged"));
    row.cells.push_back(Cell::of_text(std::isfinite(first->peak_rate) ? support::shortest(first->peak_rate) : "–"));
    row.cells.push_back(Cell::of_text(text_of(setting(*first, "train.schedule"))));
    row.cells.push_back(Cell::of_text(support::join(seeds, ", ")));
    table.rows.push_back(std::move(row));
  }
  table.caption = "Tokens and steps at the end of each training. Settings that differ between models beside encoding and seed are in the checks of the comparison.";
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace pe::report
