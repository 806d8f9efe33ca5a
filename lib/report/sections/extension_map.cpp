// One checkpoint under other frequencies, without training: rule against length, a map for each model.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/sections/section.h"
#include "schema/language_modelling.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

struct Place {
  std::vector<double> nll;  // of each seed
  std::string status;
};
/// Rule and length.
using Places = std::map<std::pair<std::string, std::int64_t>, Place>;

Places places_of(const Results& results, const Arm& arm, std::vector<std::string>& rules,
                 std::set<std::int64_t>& lengths) {
  Places places;
  const std::set<std::string> unjudged = unjudged_texts<schema::Extension>(results);
  each_row<schema::Extension>(results, [&](std::size_t run, const schema::Extension& row) {
    if (unjudged.count(row.corpus) != 0) return;
    if (std::find(arm.runs.begin(), arm.runs.end(), run) == arm.runs.end()) return;
    const std::string rule = row.variant;
    if (std::find(rules.begin(), rules.end(), rule) == rules.end()) rules.push_back(rule);
    const std::int64_t length = row.length;
    lengths.insert(length);
    Place& place = places[{rule, length}];
    const std::string status = row.status;
    if (status == "ok")
      place.nll.push_back(row.nll_mean);
    else
      place.status = status;
  });
  return places;
}

/// The map of a model and its rows of the table, with a rule above them where `rule_above`.
struct ModelMap {
  Panel panel;
  std::vector<Row> rows;
};

ModelMap map_of(const Results& results, const Arm& arm, const Places& places, const std::vector<std::string>& rules,
                const std::set<std::int64_t>& lengths, bool rule_above) {
  double reference = NAN;
  if (const auto own = places.find({"plain", train_length_of(results, arm)}); own != places.end())
    reference = mean_of_finite(own->second.nll);
  ModelMap map{{.title = arm_name(arm, has_variants(results)), .encoding = arm.encoding, .variant = arm.variant}, {}};
  for (std::size_t r = 0; r < rules.size(); ++r) {
    Row row{.cells = arm_cells(results, arm), .rule_above = rule_above && map.rows.empty()};
    row.cells.push_back(Cell::of_text(rules[r]));
    bool any = false;
    int column = 0;
    for (const std::int64_t length : lengths) {
      HeatCell cell{
          .column = column++, .row = static_cast<int>(rules.size() - 1 - r), .value = kUnknown, .text = "n/a"};
      const auto found = places.find({rules[r], length});
      if (found != places.end() && !found->second.nll.empty() && found->second.status.empty()) {
        const statistics::SeedSummary summary = statistics::summarise_seeds(found->second.nll);
        Cell number = Cell::of_number(std::exp(summary.mean));
        if (std::isfinite(summary.half_width))
          number.interval = statistics::Interval{std::exp(summary.mean - summary.half_width),
                                                 std::exp(summary.mean + summary.half_width)};
        row.cells.push_back(std::move(number));
        any = true;
        if (std::isfinite(reference)) {
          cell.value = summary.mean - reference;
          cell.text = heat_text(cell.value);
        }
      } else {
        const std::string status = found == places.end() ? "not_measured" : found->second.status;
        row.cells.push_back(Cell::missing(mark_of(status), reason_of(status)));
      }
      map.panel.cells.push_back(std::move(cell));
    }
    if (any) map.rows.push_back(std::move(row));
  }
  return map;
}

}  // namespace

Section extension_map_section(const Results& results, Palette&) {
  Section section{.id = "context_extension", .title = "Context extension"};
  if (!has_table<schema::Extension>(results)) return section;
  std::vector<std::string> rules;
  std::set<std::int64_t> lengths;
  std::vector<Places> arms;
  for (const Arm& arm : results.arms) arms.push_back(places_of(results, arm, rules, lengths));
  if (rules.empty()) return section;

  Figure figure{.id = "extension_map",
                .title = "Checkpoints under other frequencies",
                .kind = Figure::Kind::kHeatMap,
                .x = {.title = "Context length, tokens"},
                .y = {.title = "Rule"},
                .columns = 3};
  Table table{.id = "extension", .title = "Perplexity under other frequencies, without training"};
  table.columns = arm_columns(results);
  table.columns.push_back({.id = "rule", .header = "Rule", .text = true});
  for (const std::int64_t length : lengths) {
    figure.x_names.push_back(support::with_commas(length));
    table.columns.push_back({.id = cat("ppl_", length),
                             .header = length_header(results, length),
                             .style = NumberStyle::kPerplexity,
                             .direction = Direction::kLowerIsBetter});
  }
  figure.y_names.assign(rules.rbegin(), rules.rend());  // the unchanged model on top
  double highest = 0;
  for (std::size_t a = 0; a < arms.size(); ++a) {
    ModelMap map = map_of(results, results.arms[a], arms[a], rules, lengths, !table.rows.empty());
    table.rows.insert(table.rows.end(), map.rows.begin(), map.rows.end());
    bool known = false;
    for (const HeatCell& cell : map.panel.cells) {
      if (std::isnan(cell.value)) continue;
      known = true;
      highest = std::max(highest, cell.value);
    }
    if (known) figure.panels.push_back(std::move(map.panel));
  }
  figure.heat_low = 0;
  figure.heat_title = "Δ nats";
  figure.heat_high = std::clamp(std::ceil(2 * highest) / 2, 0.5, 3.0);
  figure.caption =
      cat("Anchored loss minus the loss of the same checkpoint, unchanged, at its training length, nats per token, "
          "mean over seeds; colours end at ",
          format_number(figure.heat_high, NumberStyle::kPerplexity),
          ". Rules and interventions change frequencies or logits at evaluation and train nothing. ",
          training_sentence(results));
  figure.description = "Heat maps of loss by rule and length, one for each model; the perplexities are in the table.";
  table.caption =
      cat("Anchored targets, mean over seeds of the log-likelihood with its 95 % t interval over seeds from three on. "
          "Plain: the unchanged checkpoint; crop: only as "
          "many tokens as in training; logit_scale: fitted on validation documents. ",
          training_sentence(results));
  if (!figure.panels.empty()) section.figures.push_back(std::move(figure));
  if (!table.rows.empty()) section.tables.push_back(std::move(table));
  return section;
}

}  // namespace pe::report
