// The frequency microscope of rotary models: what each pair carries, which turn into unseen angles, and how logits
// drift.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/sections/section.h"
#include "schema/probes.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

Figure map_figure(const Results& results) {
  std::set<std::int64_t> lengths;
  each_judged_row<schema::ProbeFrequency>(
      results, [&](std::size_t, const schema::ProbeFrequency& row) { lengths.insert(row.length); });
  const std::int64_t length = lengths.count(results.train_length) ? results.train_length
                              : lengths.empty()                   ? 0
                                                                  : *lengths.begin();
  Figure figure{.id = "frequency_map",
                .title = "Share of the logits by frequency pair",
                .kind = Figure::Kind::kHeatMap,
                .x = {.title = "Layer"},
                .y = {.title = "Pair (0: the fastest)"},
                .columns = 3};
  std::int64_t layers = 0, pairs = 0;
  double highest = 0;
  for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>> shares;  // layer, pair
    each_judged_row<schema::ProbeFrequency>(results, [&](std::size_t run, const schema::ProbeFrequency& row) {
      if (arm_of(results, run) != arm || row.length != length) return;
      const double layer = schema::real_of(row.layer), pair = schema::real_of(row.pair);
      if (std::isfinite(layer) && std::isfinite(pair))
        shares[{place_in_model(results, run, row.kName, "layer", std::llround(layer)),
                place_in_model(results, run, row.kName, "pair", std::llround(pair))}]
            .push_back(row.logit_share);
    });
    Panel panel{.title = arm_name(results.arms[arm], has_variants(results)),
                .encoding = results.arms[arm].encoding,
                .variant = results.arms[arm].variant};
    for (const auto& [at, values] : shares) {
      layers = std::max(layers, at.first + 1);
      pairs = std::max(pairs, at.second + 1);
      const double share = mean_of_finite(values);
      highest = std::max(highest, share);
      panel.cells.push_back({.column = static_cast<int>(at.first),
                             .row = static_cast<int>(at.second),
                             .value = share,
                             .text = cat(std::llround(100 * share))});
    }
    if (!panel.cells.empty()) figure.panels.push_back(std::move(panel));
  }
  // The fast pairs on top.
  for (Panel& panel : figure.panels) {
    for (HeatCell& cell : panel.cells) {
      cell.row = static_cast<int>(pairs) - 1 - cell.row;
      if (pairs > 16) cell.text.clear();
    }
  }
  for (std::int64_t l = 0; l < layers; ++l) figure.x_names.push_back(cat(l));
  for (std::int64_t p = pairs - 1; p >= 0; --p) figure.y_names.push_back(cat(p));
  figure.heat_low = 0;
  figure.heat_ticks = TickStyle::kPercent;
  figure.heat_high = std::max(0.1, std::ceil(10 * highest) / 10);
  figure.caption =
      cat("Share of the logits that a pair of channels carries: mean |q·k of the pair| over the sum of all, causal "
          "pairs of tokens, mean "
          "over heads and seeds, percent, at ",
          support::with_commas(length), " tokens (layout: PoPE, figures 3 and 4). ", training_sentence(results));
  figure.description = "Heat maps of pair by layer, one for each rotary model.";
  return figure;
}

struct Angles {
  std::set<std::pair<std::int64_t, std::int64_t>> pairs, partial, fresh;  // (group, pair)
  double worst = 0;
};

Table angles_table(const Results& results) {
  Table table{.id = "unseen_angles", .title = "Angles that training has not seen"};
  table.columns = arm_columns(results);
  std::map<std::pair<std::size_t, std::int64_t>, Angles> all;
  std::map<std::pair<std::size_t, std::int64_t>, std::map<std::pair<std::int64_t, std::int64_t>, bool>>
      fresh;  // by layer and pair
  std::set<std::int64_t> lengths;
  each_row<schema::ProbeAngle>(results, [&](std::size_t run, const schema::ProbeAngle& row) {
    const std::pair key{arm_of(results, run), row.length};
    lengths.insert(key.second);
    const std::pair pair{row.group, row.pair};
    Angles& angles = all[key];
    angles.pairs.insert(pair);
    const double theta = row.theta_trained, unseen = row.unseen;
    if (theta != 0 && row.turns_trained < 1) angles.partial.insert(pair);
    if (unseen > 0) angles.fresh.insert(pair);
    angles.worst = std::max(angles.worst, unseen);
    fresh[key][{row.layer, pair.second}] = fresh[key][{row.layer, pair.second}] || unseen > 0;
  });
  // The share of the logits at that length that those pairs carry.
  std::map<std::pair<std::size_t, std::int64_t>, std::pair<double, double>> carried;  // in fresh pairs, in all
  each_judged_row<schema::ProbeFrequency>(results, [&](std::size_t run, const schema::ProbeFrequency& row) {
    const std::pair key{arm_of(results, run), row.length};
    const double share = row.logit_share, layer = schema::real_of(row.layer), pair = schema::real_of(row.pair);
    if (!std::isfinite(share)) return;
    carried[key].second += share;
    if (!std::isfinite(pair)) return;
    const auto found = fresh.find(key);
    if (found != fresh.end() && found->second[{std::llround(layer), std::llround(pair)}]) carried[key].first += share;
  });
  table.columns.push_back({.id = "pairs", .header = "Pairs", .style = NumberStyle::kCount});
  table.columns.push_back({.id = "partial", .header = "below one turn in training", .style = NumberStyle::kCount});
  for (const std::int64_t length : lengths) {
    for (const auto& [id, header, style] : {std::tuple{"fresh_", "pairs", NumberStyle::kCount},
                                            {"worst_", "of distances, %", NumberStyle::kPercent},
                                            {"carried_", "of logits, %", NumberStyle::kPercent}})
      table.columns.push_back(
          {.id = cat(id, length), .header = header, .group = length_header(results, length), .style = style});
  }
  for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
    const auto first = std::find_if(lengths.begin(), lengths.end(), [&](std::int64_t length) {
      return all.count({arm, length}) != 0;
    });
    if (first == lengths.end()) continue;
    Row row{.cells = arm_cells(results, results.arms[arm])};
    const Angles& own = all.at({arm, *first});
    row.cells.push_back(Cell::of_number(static_cast<double>(own.pairs.size())));
    row.cells.push_back(Cell::of_number(static_cast<double>(own.partial.size())));
    for (const std::int64_t length : lengths) {
      const auto found = all.find({arm, length});
      const auto share = carried.find({arm, length});
      if (found == all.end()) {
        for (int i = 0; i < 3; ++i) row.cells.push_back(Cell::missing("–", reason_of("not_measured")));
        continue;
      }
      row.cells.push_back(Cell::of_number(static_cast<double>(found->second.fresh.size())));
      row.cells.push_back(Cell::of_number(found->second.worst));
      row.cells.push_back(share == carried.end() ? Cell::missing("–", reason_of("not_measured"))
                                                 : Cell::of_number(share->second.first / share->second.second));
    }
    table.rows.push_back(std::move(row));
  }
  table.caption =
      cat("Frequency pairs that reach angles unseen in training: how many, the share of distances up to that length "
          "for which the worst of them does, "
          "and the share of the logits that such pairs carry. A pair that completed a turn in training has seen all "
          "angles. ",
          training_sentence(results));
  return table;
}

/// Tables of before the column have trained models alone.
std::string network_of(const schema::ProbeLogit& row) {
  const std::string network = row.network;
  return network.empty() ? "trained" : network;
}

Figure drift_figure(const Results& results, Palette& palette) {
  Figure figure{.id = "logit_drift",
                .title = "Attention logit against distance",
                .x = {.title = "Distance, tokens", .scale = Scale::kLog2, .ticks = TickStyle::kCount},
                .y = {.title = "Logit minus that at distance 1"}};
  // Side by side, on one scale: the initial network, and the trained one.
  std::set<std::string> networks;
  each_row<schema::ProbeLogit>(results,
                               [&](std::size_t, const schema::ProbeLogit& row) { networks.insert(network_of(row)); });
  for (const std::string& variant : results.variants) {
    for (const char* network : {"initial", "trained"}) {
      if (networks.count(network) == 0) continue;
      Panel panel{.title = has_variants(results) ? variant : "", .variant = variant};
      if (networks.size() > 1)
        panel.title += cat(panel.title.empty() ? "" : ", ",
                           std::string(network) == "trained" ? "after training" : "before training");
      if (results.train_length > 0)
        panel.rules.push_back({true, static_cast<double>(results.train_length), "training length"});
      for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
        if (results.arms[arm].variant != variant) continue;
        std::map<double, std::vector<double>> means;
        each_row<schema::ProbeLogit>(results, [&](std::size_t run, const schema::ProbeLogit& row) {
          if (arm_of(results, run) != arm || row.status != "ok" || network_of(row) != network) return;
          means[schema::real_of(row.distance)].push_back(row.mean);
        });
        if (!means.count(1)) continue;
        const double near = mean_of_finite(means[1]);
        Series series{.name = results.arms[arm].encoding,
                      .role = Series::Role::kLine,
                      .look = palette.look(results.arms[arm].encoding)};
        for (const auto& [distance, values] : means) {
          if (distance >= 1)
            series.points.push_back(
                {.x = distance, .y = mean_of_finite(values) - near, .n = static_cast<double>(values.size())});
        }
        panel.series.push_back(std::move(series));
      }
      if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
    }
  }
  figure.caption =
      cat("Mean logit over layers, heads, seeds and sampled pairs of a query and a key from different tokens of "
          "held-out text, put "
          "at that "
          "distance; before training: of the same model's first weights. Encodings whose logits follow from more than "
          "a pair and "
          "its distance are left out. ",
          training_sentence(results));
  figure.description = "Line chart of attention logits by distance.";
  return figure;
}

}  // namespace

Section frequencies_section(const Results& results, Palette& palette) {
  Section section{.id = "frequencies", .title = "Frequencies and distances"};
  if (has_table<schema::ProbeFrequency>(results)) section.figures.push_back(map_figure(results));
  if (has_table<schema::ProbeLogit>(results)) section.figures.push_back(drift_figure(results, palette));
  std::erase_if(section.figures, [](const Figure& figure) { return figure.panels.empty(); });
  if (has_table<schema::ProbeAngle>(results)) section.tables.push_back(angles_table(results));
  return section;
}

}  // namespace pe::report
