// Where positions can be read, what happens without them, and far position against long context.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/sections/section.h"
#include "schema/probes.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

struct Key {
  std::size_t arm;
  std::string network, method, tested;
  auto operator<=>(const Key&) const = default;
};
using Readings = std::map<Key, std::map<std::int64_t, std::pair<std::vector<double>, std::vector<double>>>>;   // place → R², MAD

Readings readings_of(const Results& results) {
  Readings readings;
  each_row<schema::ProbePosition>(results, [&](std::size_t run, const schema::ProbePosition& row) {
    if (row.status != "ok") return;
    auto& [r2, mad] = readings[{arm_of(results, run), row.network.value_or(""), row.method.value_or(""),
                                row.tested.value_or("")}][row.place.value_or(0)];
    r2.push_back(row.r2);
    mad.push_back(row.mad);
  });
  return readings;
}

Figure reading_figure(const Results& results, const Readings& readings, double centre, Palette& palette) {
  Figure figure{.id = "position_reading",
                .title = "Position probe by layer",
                .x = {.title = "Place in the network (0: embeddings, i: behind layer i)"},
                .y = {.title = "Mean absolute distance, tokens, lower is better"}};
  figure.x.low = 0;
  figure.y.low = 0;
  for (const char* network : {"trained", "random", "shuffled"}) {
    Panel panel{.title = std::string(network) == "trained"  ? "trained network"
                         : std::string(network) == "random" ? "random network"
                                                            : "trained network, shuffled texts"};
    for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
      const auto found = readings.find({arm, network, "ridge", "all"});
      if (found == readings.end()) continue;
      Series series{.name = arm_name(results.arms[arm], tells_variants(results)), .role = Series::Role::kMain,
                    .look = palette.look(results.arms[arm].encoding)};
      for (const auto& [place, values] : found->second) {
        series.points.push_back({.x = static_cast<double>(place), .y = mean_of_finite(values.second), .n = static_cast<double>(values.second.size())});
      }
      panel.series.push_back(std::move(series));
    }
    if (panel.series.empty()) continue;
    if (std::isfinite(centre)) panel.rules.push_back({false, centre, "always the middle"});
    figure.panels.push_back(std::move(panel));
  }
  figure.caption = cat("Ridge regression from the residual stream to the position, trained and tested on different documents; mean over seeds "
                       "(layout: Haviv et al. 2022, figure 2). The random network has the same encoding; what it already shows was not learned. ",
                       training_sentence(results));
  figure.description = "Line charts of the error of a position probe by layer.";
  return figure;
}

Table reading_table(const Results& results, const Readings& readings) {
  Table table{.id = "position_reading", .title = "Position probes of the residual stream"};
  table.columns = arm_columns(results);
  table.columns.insert(table.columns.end(),
                       {{.id = "network", .header = "Network", .text = true},
                        {.id = "method", .header = "Reader", .text = true},
                        {.id = "tested", .header = "Tested on", .text = true},
                        {.id = "place", .header = "Best place", .style = NumberStyle::kCount},
                        {.id = "r2", .header = "R² there", .style = NumberStyle::kSignedNats, .direction = Direction::kHigherIsBetter},
                        {.id = "mad", .header = "distance there, tokens", .style = NumberStyle::kPerplexity, .direction = Direction::kLowerIsBetter},
                        {.id = "mad_first", .header = "embeddings", .style = NumberStyle::kPerplexity},
                        {.id = "mad_last", .header = "last layer", .style = NumberStyle::kPerplexity}});
  std::size_t last = results.arms.size();
  for (const auto& [key, places] : readings) {
    if (key.arm >= results.arms.size()) continue;
    std::int64_t best = -1;
    double least = INFINITY;
    for (const auto& [place, values] : places) {
      const double mad = mean_of_finite(values.second);
      if (mad < least) {
        least = mad;
        best = place;
      }
    }
    if (best < 0) continue;
    Row row{.cells = arm_cells(results, results.arms[key.arm]), .rule_above = last != results.arms.size() && last != key.arm};
    last = key.arm;
    for (const std::string& word : {key.network, key.method, key.tested == "second_half" ? std::string("second half, trained on the first") : key.tested}) {
      row.cells.push_back(Cell::of_text(word));
    }
    row.cells.push_back(Cell::of_number(static_cast<double>(best)));
    row.cells.push_back(Cell::of_number(mean_of_finite(places.at(best).first)));
    row.cells.push_back(Cell::of_number(least));
    row.cells.push_back(Cell::of_number(mean_of_finite(places.begin()->second.second)));
    row.cells.push_back(Cell::of_number(mean_of_finite(places.rbegin()->second.second)));
    table.rows.push_back(std::move(row));
  }
  table.caption = cat("Mean over seeds. The best place is that with the smallest distance, so it flatters a little. ", training_sentence(results));
  return table;
}

Table reliance_table(const Results& results) {
  Table table{.id = "reliance", .title = "Ablations of position information"};
  table.columns = arm_columns(results);
  struct Sum {
    std::vector<double> delta, se;
    std::string status = "ok";
  };
  std::vector<std::pair<std::string, std::int64_t>> cases;
  std::map<std::pair<std::size_t, std::pair<std::string, std::int64_t>>, Sum> sums;
  each_row<schema::ProbeReliance>(results, [&](std::size_t run, const schema::ProbeReliance& row) {
    const std::pair test{row.test, row.amount};
    if (std::find(cases.begin(), cases.end(), test) == cases.end()) cases.push_back(test);
    Sum& sum = sums[{arm_of(results, run), test}];
    if (row.status != "ok")
      sum.status = row.status;
    else {
      sum.delta.push_back(row.delta);
      sum.se.push_back(row.se);
    }
  });
  const std::map<std::string, std::string> groups = {{"without_encoding", "encoding taken away"}, {"constant_position", "encoding taken away"},
                                                     {"shuffled_prefix", "prefix shuffled, all but the last"}, {"translation", "all moved by"},
                                                     {"gap", "second half moved by"}};
  for (const auto& [test, amount] : cases) {
    const auto group = groups.find(test);
    table.columns.push_back({.id = cat(test, "_", amount),
                             .header = test == "without_encoding"    ? "none"
                                       : test == "constant_position" ? "one position"
                                                                     : support::with_commas(amount),
                             .group = group == groups.end() ? test : group->second,
                             .style = NumberStyle::kSignedNats});
  }
  for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
    Row row{.cells = arm_cells(results, results.arms[arm])};
    bool any = false;  // models that were never asked are left out
    for (const auto& test : cases) {
      const auto found = sums.find({arm, test});
      any = any || found != sums.end();
      if (found == sums.end() || (found->second.delta.empty() && found->second.status == "ok")) {
        row.cells.push_back(Cell::missing("–", reason_of("not_measured")));
      } else if (found->second.delta.empty()) {
        row.cells.push_back(Cell::missing(mark_of(found->second.status), reason_of(found->second.status)));
      } else {
        Cell cell = Cell::of_number(mean_of_finite(found->second.delta));
        if (found->second.delta.size() == 1 && std::isfinite(found->second.se[0])) cell.half_width = 1.96 * found->second.se[0];
        row.cells.push_back(std::move(cell));
      }
    }
    if (any) table.rows.push_back(std::move(row));
  }
  table.caption = cat("Nats a token that the same targets cost more; mean over seeds, ± 95 % over documents where there is one seed. A relative "
                      "encoding does not feel a translation (0.001 nats and less is rounding). ", training_sentence(results));
  return table;
}

Figure context_figure(const Results& results) {
  Figure figure{.id = "position_context",
                .title = "Far position or long context?",
                .kind = Figure::Kind::kHeatMap,
                .x = {.title = "Positions up to"},
                .y = {.title = "Context, tokens"},
                .columns = 3};
  std::set<std::int64_t> contexts;
  each_row<schema::ProbePositionLoss>(
      results, [&](std::size_t, const schema::ProbePositionLoss& row) { contexts.insert(row.context); });
  const std::vector<std::int64_t> all(contexts.begin(), contexts.end());
  const auto place = [&](std::int64_t length) { return static_cast<int>(std::find(all.begin(), all.end(), length) - all.begin()); };
  for (const std::int64_t length : all) {
    figure.x_names.push_back(support::with_commas(length));
    figure.y_names.push_back(support::with_commas(length));
  }
  double low = INFINITY, high = -INFINITY;
  for (const Arm& arm : results.arms) {
    Panel panel{.title = arm_name(arm, tells_variants(results)), .encoding = arm.encoding, .variant = arm.variant};
    each_row<schema::ProbePositionLoss>(results, [&](std::size_t run, const schema::ProbePositionLoss& row) {
      if (run != arm.runs.front()) return;
      const double nll = row.nll_mean;
      HeatCell cell{.column = place(row.last), .row = place(row.context), .value = nll, .text = "n/a"};
      if (std::isfinite(nll)) {
        cell.text = format_number(nll, NumberStyle::kPerplexity);
        low = std::min(low, nll);
        high = std::max(high, nll);
      } else {
        cell.value = kUnknown;
      }
      panel.cells.push_back(std::move(cell));
    });
    if (!panel.cells.empty()) figure.panels.push_back(std::move(panel));
  }
  figure.heat_low = std::isfinite(low) ? std::floor(10 * low) / 10 : 0;
  figure.heat_high = std::isfinite(high) ? std::max(figure.heat_low + 0.1, std::ceil(10 * high) / 10) : 1;
  figure.heat_title = "nats";
  figure.caption = cat("Loss of the same targets, nats a token: a row is an amount of context, and along it the text stands at later and later "
                       "positions; the first seed of each model. What grows along a row is caused by position, what changes up a column by context. ",
                       training_sentence(results));
  figure.description = "Heat maps of loss by context and position, one for each model.";
  return figure;
}

}  // namespace

Section positions_section(const Results& results, Palette& palette) {
  Section section{.id = "positions", .title = "Position information"};
  const Readings readings = readings_of(results);
  if (!readings.empty()) {
    double centre = NAN;
    each_row<schema::ProbePosition>(results,
                                    [&](std::size_t, const schema::ProbePosition& row) { centre = row.mad_centre; });
    section.figures.push_back(reading_figure(results, readings, centre, palette));
    section.tables.push_back(reading_table(results, readings));
  }
  if (has_table<schema::ProbeReliance>(results)) section.tables.push_back(reliance_table(results));
  if (has_table<schema::ProbePositionLoss>(results)) section.figures.push_back(context_figure(results));
  std::erase_if(section.figures, [](const Figure& figure) { return figure.panels.empty(); });
  return section;
}

}  // namespace pe::report
