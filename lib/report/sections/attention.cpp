// Attention by head: where peaks are, how widely heads look, sinks and circuits.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "report/sections/section.h"
#include "schema/probes.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

/// Lengths with numbers.
template <typename T>
std::set<std::int64_t> lengths_of(const Results& results) {
  std::set<std::int64_t> lengths;
  each_judged_row<T>(results, [&](std::size_t, const T& row) {
    if (const std::optional<std::int64_t> layer = row.layer) lengths.insert(row.length);
  });
  return lengths;
}

/// The training length if it was tested, else the shortest; 0 without any.
template <typename T>
std::int64_t usual_length(const Results& results) {
  const std::set<std::int64_t> lengths = lengths_of<T>(results);
  if (lengths.empty()) return 0;
  return lengths.count(results.train_length) ? results.train_length : *lengths.begin();
}

Figure peaks_figure(const Results& results, Palette& palette) {
  const std::int64_t length = usual_length<schema::ProbeArgmax>(results);
  std::map<std::size_t, std::map<double, std::vector<double>>> shares;  // arm → bin → values
  each_judged_row<schema::ProbeArgmax>(results, [&](std::size_t run, const schema::ProbeArgmax& row) {
    if (row.length != length) return;
    shares[arm_of(results, run)][(row.bin_lo + row.bin_hi) / 2].push_back(row.share);
  });
  Figure figure{.id = "attention_peaks",
                .title = "Where attention peaks",
                .x = {.title = "Distance of the peak (0: the query, 1: the first token)"},
                .y = {.title = "Share of queries", .ticks = TickStyle::kPercent}};
  figure.x.low = 0;
  figure.x.high = 1;
  figure.y.low = 0;
  for (const std::string& variant : results.variants) {
    Panel panel{.title = has_variants(results) ? variant : ""};
    for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
      if (results.arms[arm].variant != variant || !shares.count(arm)) continue;
      Series series{.name = results.arms[arm].encoding,
                    .role = Series::Role::kMain,
                    .look = palette.look(results.arms[arm].encoding)};
      for (const auto& [bin, values] : shares[arm]) {
        series.points.push_back({.x = bin, .y = mean_of_finite(values), .n = static_cast<double>(values.size())});
      }
      panel.series.push_back(std::move(series));
    }
    if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
  }
  figure.caption =
      cat("Histogram of (i − argmax_j A_ij)/(i + 1) in 20 bins, at ", support::with_commas(length),
          " tokens, mean over layers, heads and seeds (layout: Kazemnejad et al. 2023). ", training_sentence(results));
  figure.description = "Line chart of how far back the largest attention weight of a query lies.";
  return figure;
}

/// Null in tables that do not tell texts with a separator from others.
const std::string* separator_of(const schema::ProbeSink& row) { return &row.separator; }
const std::string* separator_of(const schema::ProbeAttention&) { return nullptr; }

/// Layer by head, a panel for each arm and length, of its first seed.
template <typename T>
Figure heat_figure(const Results& results, double T::*column, const std::set<std::int64_t>& lengths, Figure figure) {
  figure.kind = Figure::Kind::kHeatMap;
  figure.x.title = "Head";
  figure.y.title = "Layer";
  figure.columns = 3;
  figure.heat_ticks = TickStyle::kPercent;
  std::int64_t layers = 0, heads = 0;
  bool any_separator = false;
  each_judged_row<T>(results, [&](std::size_t, const T& row) {
    const std::string* separator = separator_of(row);
    any_separator = any_separator || (separator != nullptr && *separator == "first");
  });
  for (const Arm& arm : results.arms) {
    for (const std::int64_t length : lengths) {
      const std::string tokens = lengths.size() > 1 ? cat(", ", support::with_commas(length), " tokens") : "";
      Panel panel{
          .title = arm_name(arm, has_variants(results)) + tokens, .encoding = arm.encoding, .variant = arm.variant};
      each_judged_row<T>(results, [&](std::size_t run, const T& row) {
        if (run != arm.runs.front() || row.length != length) return;
        const std::string* separator = separator_of(row);
        if (separator != nullptr && *separator != (any_separator ? "first" : "none")) return;
        const std::optional<std::int64_t> layer = row.layer, head = row.head;
        if (!layer || !head) return;  // a length without numbers
        const double value = row.*column;
        layers = std::max(layers, place_in_model(results, run, T::kName, "layer", *layer) + 1);
        heads = std::max(heads, place_in_model(results, run, T::kName, "head", *head) + 1);
        panel.cells.push_back({.column = static_cast<int>(*head),
                               .row = static_cast<int>(*layer),
                               .value = value,
                               .text = std::isfinite(value) ? cat(std::llround(value * 100)) : "n/a"});
      });
      if (!panel.cells.empty()) figure.panels.push_back(std::move(panel));
    }
  }
  for (std::int64_t h = 0; h < heads; ++h) figure.x_names.push_back(cat(h));
  for (std::int64_t l = 0; l < layers; ++l) figure.y_names.push_back(cat(l));
  if (lengths.size() == 1) figure.caption += cat(" At ", support::with_commas(*lengths.begin()), " tokens.");
  figure.caption += " In percent; the first seed of each model, layer 0 below.";
  figure.description = "Heat maps of layer by head, one for each model.";
  return figure;
}

/// Heat maps of layer by head. Distances are drawn at the longest length, too.
std::vector<Figure> heat_figures(const Results& results) {
  using Probe = schema::ProbeAttention;
  std::vector<Figure> figures;
  if (const std::set<std::int64_t> lengths = lengths_of<Probe>(results); !lengths.empty()) {
    const std::int64_t usual = usual_length<Probe>(results);
    figures.push_back(heat_figure(results, &Probe::entropy_share, {usual},
                                  {.id = "attention_entropy",
                                   .title = "Entropy by layer and head",
                                   .caption = "Entropy of attention, divided by the entropy of uniform attention."}));
    figures.push_back(heat_figure(results, &Probe::distance_share, {usual, *lengths.rbegin()},
                                  {.id = "attention_distance",
                                   .title = "Distance by layer and head",
                                   .caption = "Mean distance of attention over the distance to the first token. "
                                              "Uniform attention has 50 %."}));
  }
  if (has_table<schema::ProbeSink>(results)) {
    figures.push_back(
        heat_figure(results, &schema::ProbeSink::alpha_first, {usual_length<schema::ProbeSink>(results)},
                    {.id = "attention_sinks",
                     .title = "Attention to the first token",
                     .caption = "Mean share of attention that the first token gets from the queries that see it."}));
  }
  return figures;
}

/// Values of layers, heads and seeds, by arm and a key.
template <typename Key>
using ValuesOf = std::map<std::pair<std::size_t, Key>, std::vector<double>>;

/// Everything that the table shows, by arm.
struct HeadValues {
  ValuesOf<std::int64_t> distance, entropy;  ///< by length
  ValuesOf<std::string> sinks, circuits;     ///< by separator, by measure
  std::set<std::int64_t> lengths, sink_lengths;
  std::map<std::pair<std::size_t, std::int64_t>, std::string> statuses;
  std::int64_t copy = 0;  ///< tokens of the text that is said twice
};

HeadValues head_values(const Results& results) {
  HeadValues all;
  each_judged_row<schema::ProbeAttention>(results, [&](std::size_t run, const schema::ProbeAttention& row) {
    const std::pair key{arm_of(results, run), row.length};
    all.lengths.insert(key.second);
    if (row.status != "ok") {
      all.statuses[key] = row.status;
      return;
    }
    all.distance[key].push_back(row.distance_share);
    all.entropy[key].push_back(row.entropy_share);
  });
  each_judged_row<schema::ProbeSinkSummary>(results, [&](std::size_t run, const schema::ProbeSinkSummary& row) {
    all.sinks[{arm_of(results, run), row.separator}].push_back(row.rate);
    all.sink_lengths.insert(row.length);
  });
  each_row<schema::ProbeCircuitSummary>(results, [&](std::size_t, const schema::ProbeCircuitSummary& row) {
    const std::int64_t m = row.m;
    if (all.copy == 0 || (results.train_length > 0 && 2 * m <= results.train_length)) all.copy = std::max(all.copy, m);
  });
  each_row<schema::ProbeCircuitSummary>(results, [&](std::size_t run, const schema::ProbeCircuitSummary& row) {
    if (row.m == all.copy) all.circuits[{arm_of(results, run), row.measure}].push_back(row.value);
  });
  return all;
}

using Headers = std::vector<std::pair<const char*, const char*>>;
const Headers kSinks = {{"first", "separator first"}, {"none", "no separator"}};
const Headers kCircuits = {{"previous", "previous"}, {"duplicate", "duplicate"}, {"induction", "induction"}};

std::vector<Column> head_columns(const Results& results, const HeadValues& all) {
  std::vector<Column> columns = arm_columns(results);
  const auto add = [&](std::string id, std::string header, std::string group, NumberStyle style) {
    columns.push_back({.id = std::move(id), .header = std::move(header), .group = std::move(group), .style = style});
  };
  for (const auto& [name, group] :
       {std::pair{"distance", "mean distance, % of i"}, {"entropy", "entropy, % of ln(i + 1)"}}) {
    for (const std::int64_t length : all.lengths)
      add(cat(name, "_", length), length_header(results, length), group, NumberStyle::kPercent);
  }
  if (!all.sinks.empty()) {
    for (const auto& [word, header] : kSinks) add(cat("sink_", word), header, "sink rate, %", NumberStyle::kPercent);
  }
  if (!all.circuits.empty()) {
    const std::string group = cat("best head, %, copies of ", all.copy);
    for (const auto& [word, header] : kCircuits) add(cat("circuit_", word), header, group, NumberStyle::kPercent);
    add("in_context_gain", "gain", group, NumberStyle::kSignedNats);
  }
  return columns;
}

Row head_row(const Results& results, const HeadValues& all, std::size_t arm) {
  Row row{.cells = arm_cells(results, results.arms[arm])};
  for (const auto* values : {&all.distance, &all.entropy}) {
    for (const std::int64_t length : all.lengths) {
      const auto found = values->find({arm, length});
      const auto status = all.statuses.find({arm, length});
      if (found != values->end())
        row.cells.push_back(Cell::of_number(mean_of_finite(found->second)));
      else
        row.cells.push_back(Cell::missing(status == all.statuses.end() ? "–" : mark_of(status->second),
                                          reason_of(status == all.statuses.end() ? "not_measured" : status->second)));
    }
  }
  const auto add = [&](const ValuesOf<std::string>& from, const char* word) {
    const auto found = from.find({arm, word});
    row.cells.push_back(
        Cell::of_known(found == from.end() ? NAN : mean_of_finite(found->second), reason_of("not_measured")));
  };
  if (!all.sinks.empty()) {
    for (const auto& [word, header] : kSinks) add(all.sinks, word);
  }
  if (!all.circuits.empty()) {
    for (const auto& [word, header] : kCircuits) add(all.circuits, word);
    add(all.circuits, "in_context_gain");
  }
  return row;
}

Table attention_table(const Results& results) {
  Table table{.id = "attention", .title = "Attention by head"};
  const HeadValues all = head_values(results);
  table.columns = head_columns(results, all);
  for (std::size_t arm = 0; arm < results.arms.size(); ++arm) table.rows.push_back(head_row(results, all, arm));
  std::vector<std::string> sink_lengths;
  for (const std::int64_t length : all.sink_lengths) sink_lengths.push_back(support::with_commas(length));
  table.caption =
      cat("Means over layers, heads and seeds; entropy that grows beyond the training length is attention that thins "
          "out. Sink rate: "
          "share of (text, layer, head) in which the first token gets more of the attention of queries that see it "
          "than the threshold of the probe",
          sink_lengths.empty() ? "" : cat(", at ", support::join(sink_lengths, " and "), " tokens"),
          "; circuits: a text "
          "of random pieces said twice; attention to the token before, to the same token of the first copy, and to the "
          "one behind it; "
          "gain: nats per token that the second copy costs less. ",
          training_sentence(results));
  return table;
}

}  // namespace

Section attention_section(const Results& results, Palette& palette) {
  Section section{.id = "attention", .title = "Attention by head"};
  if (!has_table<schema::ProbeAttention>(results) && !has_table<schema::ProbeSinkSummary>(results) &&
      !has_table<schema::ProbeCircuitSummary>(results))
    return section;
  if (has_table<schema::ProbeArgmax>(results)) section.figures.push_back(peaks_figure(results, palette));
  for (Figure& figure : heat_figures(results)) section.figures.push_back(std::move(figure));
  std::erase_if(section.figures, [](const Figure& figure) { return figure.panels.empty(); });
  section.tables.push_back(attention_table(results));
  return section;
}

}  // namespace pe::report
