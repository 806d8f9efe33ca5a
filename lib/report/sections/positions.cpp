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
using Readings =
    std::map<Key, std::map<std::int64_t, std::pair<std::vector<double>, std::vector<double>>>>;  // place → R², MAD

Readings readings_of(const Results& results) {
  Readings readings;
  each_judged_row<schema::ProbePosition>(results, [&](std::size_t run, const schema::ProbePosition& row) {
    if (row.status != "ok") return;
    auto& [r2, mad] = readings[{arm_of(results, run), row.network.value_or(""), row.method.value_or(""),
                                row.tested.value_or("")}][row.place.value_or(0)];
    r2.push_back(row.r2);
    mad.push_back(row.mad);
  });
  return readings;
}

/// The error of a reader that always says the middle, where that is one number for all that the figure shows; else NaN.
double centre_of(const Results& results) {
  std::set<double> centres;
  each_judged_row<schema::ProbePosition>(results, [&](std::size_t, const schema::ProbePosition& row) {
    if (row.status == "ok" && row.method == "ridge" && row.tested == "all") centres.insert(row.mad_centre);
  });
  const bool one = !centres.empty() && *centres.rbegin() - *centres.begin() <= 1e-6 * *centres.rbegin();
  return one ? *centres.begin() : NAN;
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
      Series series{.name = arm_name(results.arms[arm], has_variants(results)),
                    .role = Series::Role::kMain,
                    .look = palette.look(results.arms[arm].encoding)};
      for (const auto& [place, values] : found->second) {
        series.points.push_back({.x = static_cast<double>(place),
                                 .y = mean_of_finite(values.second),
                                 .n = static_cast<double>(values.second.size())});
      }
      panel.series.push_back(std::move(series));
    }
    if (panel.series.empty()) continue;
    if (std::isfinite(centre)) panel.rules.push_back({false, centre, "always the middle"});
    figure.panels.push_back(std::move(panel));
  }
  figure.caption =
      cat("Ridge regression from the residual stream to the position, trained and tested on different documents; mean "
          "over seeds "
          "(layout: Haviv et al. 2022, figure 2). The random network has the same encoding; what it already shows was "
          "not learned. ",
          training_sentence(results));
  figure.description = "Line charts of the error of a position probe by layer.";
  return figure;
}

Table reading_table(const Results& results, const Readings& readings) {
  Table table{.id = "position_reading", .title = "Position probes of the residual stream"};
  table.columns = arm_columns(results);
  table.columns.insert(
      table.columns.end(),
      {{.id = "network", .header = "Network", .text = true},
       {.id = "method", .header = "Reader", .text = true},
       {.id = "tested", .header = "Tested on", .text = true},
       {.id = "place", .header = "Best place", .style = NumberStyle::kCount},
       {.id = "r2", .header = "R² there", .style = NumberStyle::kSignedNats, .direction = Direction::kHigherIsBetter},
       {.id = "mad",
        .header = "distance there, tokens",
        .style = NumberStyle::kPerplexity,
        .direction = Direction::kLowerIsBetter},
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
    Row row{.cells = arm_cells(results, results.arms[key.arm]),
            .rule_above = last != results.arms.size() && last != key.arm};
    last = key.arm;
    for (const std::string& word :
         {key.network, key.method,
          key.tested == "second_half" ? std::string("second half, trained on the first") : key.tested}) {
      row.cells.push_back(Cell::of_text(word));
    }
    row.cells.push_back(Cell::of_number(static_cast<double>(best)));
    row.cells.push_back(Cell::of_number(mean_of_finite(places.at(best).first)));
    row.cells.push_back(Cell::of_number(least));
    row.cells.push_back(Cell::of_number(mean_of_finite(places.begin()->second.second)));
    row.cells.push_back(Cell::of_number(mean_of_finite(places.rbegin()->second.second)));
    table.rows.push_back(std::move(row));
  }
  table.caption = cat("Mean over seeds. The best place is that with the smallest distance, so it flatters a little. ",
                      training_sentence(results));
  return table;
}

Table reliance_table(const Results& results) {
  Table table{.id = "reliance", .title = "Ablations of position information"};
  table.columns = arm_columns(results);
  struct Sum {
    std::vector<double> delta, se;
    std::string status = "ok";
  };
  const std::set<std::string> unjudged = unjudged_texts<schema::ProbeReliance>(results);
  std::vector<std::pair<std::string, std::int64_t>> cases;
  std::map<std::pair<std::size_t, std::pair<std::string, std::int64_t>>, Sum> sums;
  each_row<schema::ProbeReliance>(results, [&](std::size_t run, const schema::ProbeReliance& row) {
    if (unjudged.count(row.corpus) != 0) return;
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
  const std::map<std::string, std::string> groups = {{"without_encoding", "encoding taken away"},
                                                     {"constant_position", "encoding taken away"},
                                                     {"shuffled_prefix", "prefix shuffled, all but the last"},
                                                     {"translation", "all moved by"},
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
      } else if (found->second.delta.empty() || found->second.status != "ok") {  // of some seed, too
        row.cells.push_back(Cell::missing(mark_of(found->second.status), reason_of(found->second.status)));
      } else {
        Cell cell = Cell::of_number(mean_of_finite(found->second.delta));
        if (found->second.delta.size() == 1 && std::isfinite(found->second.se[0]))
          cell.half_width = statistics::kNormal95 * found->second.se[0];
        row.cells.push_back(std::move(cell));
      }
    }
    if (any) table.rows.push_back(std::move(row));
  }
  table.caption =
      cat("Nats per token that the same targets cost more; mean over seeds, ± 95 % over documents where there is one "
          "seed. A relative "
          "encoding does not feel a translation (0.001 nats and less is rounding). ",
          training_sentence(results));
  return table;
}

/// Why a length costs what it costs, on targets that stay the same: nats of each seed. NaN where nothing says it.
struct Causes {
  std::vector<double> position, context, start;
};
using CausesByLength = std::map<std::int64_t, std::vector<Causes>>;  // of each arm

CausesByLength causes_of(const Results& results) {
  std::map<std::size_t, std::map<std::pair<std::int64_t, std::int64_t>, double>> placed;  // run → context, last → nats
  CausesByLength causes;
  const std::int64_t trained = results.train_length;
  if (trained == 0) return causes;
  const std::set<std::string> unjudged = unjudged_texts<schema::ProbePositionLoss>(results);
  each_row<schema::ProbePositionLoss>(results, [&](std::size_t run, const schema::ProbePositionLoss& row) {
    if (row.status != "ok" || unjudged.count(row.corpus) != 0) return;
    placed[run][{row.context, row.last}] = row.nll_mean;
    if (row.last > trained) causes[row.last];
  });
  for (auto& [length, arms] : causes) {
    for (const Arm& arm : results.arms) {
      Causes& own = arms.emplace_back();
      for (const std::size_t run : arm.runs) {
        const auto at = [&](std::int64_t tokens, std::int64_t last) {
          const auto found = placed[run].find({tokens, last});
          return found == placed[run].end() ? std::nan("") : found->second;
        };
        const LmCell* blocks = results.find_lm(run, "blocks", length);
        const LmCell* sliding = results.find_lm(run, "sliding", length);
        own.position.push_back(at(trained, length) - at(trained, trained));
        own.context.push_back(at(length, length) - at(trained, length));
        own.start.push_back(blocks && sliding ? blocks->nll - sliding->nll : std::nan(""));
      }
    }
  }
  return causes;
}

constexpr std::pair<const char*, std::vector<double> Causes::*> kCauses[] = {
    {"far positions", &Causes::position}, {"longer context", &Causes::context}, {"window start", &Causes::start}};

std::string causes_words(const Results& results) {
  const std::string trained = support::with_commas(results.train_length);
  return cat("Far positions: ", trained,
             " tokens read at positions that end at the length, less the same tokens read from position 0. Longer "
             "context: all "
             "tokens up to the length, less the last ",
             trained,
             " of them at the same positions; it brings more keys and, with them, distances that "
             "training did not have. Both together are the change from the training length. Window start: blocks less "
             "sliding, what missing context at "
             "the beginning of windows costs.");
}

Table cause_table(const Results& results, const CausesByLength& causes) {
  Table table{.id = "length_causes", .title = "Cost of a longer context, by cause"};
  table.columns = arm_columns(results);
  const char* const ids[] = {"position", "context", "start"};
  for (const auto& [length, arms] : causes) {
    for (std::size_t c = 0; c < std::size(kCauses); ++c) {
      table.columns.push_back({.id = cat(ids[c], "_", length),
                               .header = kCauses[c].first,
                               .group = tokens_header(results, length),
                               .style = NumberStyle::kSignedNats,
                               .direction = Direction::kLowerIsBetter});
    }
  }
  for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
    Row row{.cells = arm_cells(results, results.arms[arm])};
    bool any = false;
    for (const auto& [length, arms] : causes) {
      for (const auto& [name, values] : kCauses) {
        if (!std::isfinite(statistics::summarise_seeds(arms[arm].*values).mean)) {
          row.cells.push_back(Cell::missing("n/a", "not measured, or not at that length"));
          continue;
        }
        any = true;
        row.cells.push_back(mean_cell(arms[arm].*values));
      }
    }
    if (any) table.rows.push_back(std::move(row));
  }
  table.caption = cat("Nats per token, mean over seeds, ± 95 % t interval from three on. ", training_sentence(results));
  return table;
}

/// The causes side by side, at the longest length.
Figure cause_figure(const Results& results, const CausesByLength& causes, Palette& palette) {
  const auto& [length, arms] = *causes.rbegin();
  Figure figure{.id = "length_causes",
                .title = cat("Cost of ", support::with_commas(length), " tokens of context, by cause"),
                .kind = Figure::Kind::kBars,
                .x = {.title = "Δ nats per token, lower is better"},
                .columns = 3};
  std::vector<const Arm*> rows;
  for (auto arm = results.arms.rbegin(); arm != results.arms.rend(); ++arm) rows.push_back(&*arm);
  figure.y_names = row_names(results, rows);
  for (const auto& [name, values] : kCauses) {
    Panel panel{.title = name};
    for (std::size_t arm = 0; arm < arms.size(); ++arm) {
      const statistics::SeedSummary summary = statistics::summarise_seeds(arms[arm].*values);
      if (!std::isfinite(summary.mean)) continue;
      Series series{.name = arm_name(results.arms[arm], has_variants(results)),
                    .look = palette.look(results.arms[arm].encoding),
                    .labelled = false};
      series.points.push_back({.x = summary.mean,
                               .y = static_cast<double>(arms.size() - 1 - arm),
                               .low = summary.mean - summary.half_width,
                               .high = summary.mean + summary.half_width,
                               .n = static_cast<double>(summary.seeds)});
      panel.series.push_back(std::move(series));
    }
    if (panel.series.empty()) continue;
    panel.rules.push_back({true, 0, ""});
    figure.panels.push_back(std::move(panel));
  }
  figure.caption = cat("Mean over seeds, on the same targets; line: 95 % t interval over seeds, from three on. ",
                       training_sentence(results));
  figure.description =
      "Bar charts of the loss that a longer context adds, one for each cause; the values are in the table.";
  return figure;
}

}  // namespace

Section positions_section(const Results& results, Palette& palette) {
  Section section{.id = "positions", .title = "Position information"};
  const Readings readings = readings_of(results);
  if (!readings.empty()) {
    section.figures.push_back(reading_figure(results, readings, centre_of(results), palette));
    section.tables.push_back(reading_table(results, readings));
  }
  if (has_table<schema::ProbeReliance>(results)) section.tables.push_back(reliance_table(results));
  if (const CausesByLength causes = causes_of(results); !causes.empty()) {
    section.figures.push_back(cause_figure(results, causes, palette));
    section.tables.push_back(cause_table(results, causes));
    section.paragraphs.push_back(causes_words(results));
  }
  std::erase_if(section.figures, [](const Figure& figure) { return figure.panels.empty(); });
  return section;
}

}  // namespace pe::report
