// Paired differences: every encoding against the baseline, and what dropping an encoding does against its control.
#include <algorithm>
#include <cmath>

#include "report/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

struct Pair {
  const Arm* arm;
  const Arm* base;
  std::string protocol;
  std::int64_t length;
  ArmScore score, base_score;
  std::optional<PairedDifference> difference;
};

const Arm* find_arm(const Results& results, const std::string& encoding, const std::string& variant) {
  for (const Arm& arm : results.arms) {
    if (arm.encoding == encoding && arm.variant == variant) return &arm;
  }
  return nullptr;
}

std::vector<Pair> pairs_of(const Results& results, const std::vector<std::pair<const Arm*, const Arm*>>& arms,
                           Comparisons& comparisons) {
  std::vector<Pair> pairs;
  for (const auto& [arm, base] : arms) {
    for (const std::string& protocol : protocols_of(results)) {
      for (const std::int64_t length : lengths_of(results, protocol)) {
        Pair pair{arm,
                  base,
                  protocol,
                  length,
                  arm_score(results, *arm, protocol, length),
                  arm_score(results, *base, protocol, length),
                  {}};
        pair.difference = comparisons.compare(pair.score, pair.base_score);
        pairs.push_back(std::move(pair));
      }
    }
  }
  return pairs;
}

Table table_of(const Results& results, const std::vector<Pair>& pairs, const std::string& id, const std::string& title,
               const std::string& against) {
  Table table{.id = id, .title = title};
  table.columns = arm_columns(results);
  table.columns.insert(table.columns.end(),
                       {{.id = "protocol", .header = "Protocol", .text = true},
                        {.id = "length", .header = "Length", .style = NumberStyle::kCount},
                        {.id = "delta_nll",
                         .header = "Δ nats/token",
                         .style = NumberStyle::kSignedNats,
                         .direction = Direction::kLowerIsBetter},
                        {.id = "low", .header = "95 % low", .style = NumberStyle::kSignedNats},
                        {.id = "high", .header = "95 % high", .style = NumberStyle::kSignedNats},
                        {.id = "relative_ppl", .header = "Perplexity, %", .style = NumberStyle::kSignedPercent},
                        {.id = "p", .header = "p", .style = NumberStyle::kProbability},
                        {.id = "p_holm", .header = "p (Holm)", .style = NumberStyle::kProbability}});
  std::vector<double> p;
  for (const Pair& pair : pairs) p.push_back(pair.difference ? pair.difference->p : NAN);
  const std::vector<double> adjusted = holm(p);
  std::size_t tests = 0;
  for (const double value : p) tests += !std::isnan(value);
  const Arm* last = nullptr;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Pair& pair = pairs[i];
    Row row{.cells = arm_cells(results, *pair.arm), .rule_above = last && last != pair.arm};
    last = pair.arm;
    row.cells.push_back(Cell::of_text(pair.protocol));
    row.cells.push_back(Cell::of_number(static_cast<double>(pair.length)));
    if (pair.difference) {
      const PairedDifference& d = *pair.difference;
      Cell delta = Cell::of_number(d.delta);
      delta.best = d.excludes_zero() && d.delta < 0 && adjusted[i] < 0.05;
      row.cells.insert(row.cells.end(),
                       {delta, Cell::of_number(d.interval.low), Cell::of_number(d.interval.high),
                        Cell::of_number(std::exp(d.delta) - 1), Cell::of_number(d.p), Cell::of_number(adjusted[i])});
    } else {
      const ArmScore& bad = pair.score.ok() ? pair.base_score : pair.score;
      const std::string reason =
          bad.ok() ? "fewer than two documents in common" : cat(pair.score.ok() ? cat("other side: ") : "", bad.reason);
      row.cells.push_back(Cell::missing(bad.ok() ? "n/a" : mark_of(bad.status), reason));
      for (int k = 0; k < 5; ++k) row.cells.push_back(Cell::of_text("–"));
    }
    table.rows.push_back(std::move(row));
  }
  table.caption =
      cat("Mean NLL minus that of ", against,
          ", in nats per token, on the same documents; below zero is better. Seeds are pooled per document. "
          "Interval and two-sided p: paired bootstrap over documents, 10,000 resamples; Holm's correction over the ",
          tests,
          " tests of this table. Bold: below zero, with an interval that excludes it and a corrected p below 0.05. The "
          "interval is test-set noise and not seed noise: "
          "differences between single seeds below about 0.03 nats are no findings. ",
          seeds_sentence(results), " ", training_sentence(results));
  return table;
}

Figure forest_of(const Results& results, const std::vector<Pair>& pairs, const std::string& protocol,
                 const std::string& id, const std::string& against, Palette& palette) {
  Figure figure{.id = id,
                .title = cat("Difference from ", against, ", ", protocol),
                .kind = Figure::Kind::kForest,
                .x = {.title = "Δ nats per token (below zero is better)"}};
  std::vector<const Arm*> rows;
  for (const Pair& pair : pairs) {
    if (std::find(rows.begin(), rows.end(), pair.arm) == rows.end()) rows.push_back(pair.arm);
  }
  std::reverse(rows.begin(), rows.end());  // the first on top
  for (const Arm* arm : rows) figure.y_names.push_back(arm_name(*arm, tells_variants(results)));
  for (const std::int64_t length : lengths_of(results, protocol)) {
    Panel panel{.title = cat(length_header(results, length), " tokens")};
    double low = 0, high = 0;
    for (const Pair& pair : pairs) {
      if (pair.protocol != protocol || pair.length != length) continue;
      const auto row = static_cast<double>(std::find(rows.begin(), rows.end(), pair.arm) - rows.begin());
      if (!pair.difference) {
        const bool own = !pair.score.ok();
        const ArmScore& bad = own ? pair.score : pair.base_score;
        panel.flags.push_back({0, row,
                               bad.ok() ? "n/a"
                               : own    ? mark_of(bad.status)
                                        : cat("other side: ", mark_of(bad.status)),
                               ""});
        continue;
      }
      const PairedDifference& d = *pair.difference;
      Series series{.name = figure.y_names[static_cast<std::size_t>(row)],
                    .look = palette.look(pair.arm->encoding),
                    .labelled = false};
      series.points.push_back({.x = d.delta,
                               .y = row,
                               .low = d.interval.low,
                               .high = d.interval.high,
                               .n = static_cast<double>(pair.score.pooled.size())});
      panel.series.push_back(std::move(series));
      low = std::min(low, d.interval.low);
      high = std::max(high, d.interval.high);
    }
    if (panel.series.empty()) continue;
    const double air = std::max(0.06 * (high - low), 1e-4);
    panel.x_low = low - air;  // each length has a range of its own: a model that explodes would hide all else
    panel.x_high = high + air;
    panel.rules.push_back({true, 0, ""});
    figure.panels.push_back(std::move(panel));
  }
  figure.caption = cat("Paired difference of mean NLL from ", against, " on the same documents, ", protocol,
                       " protocol; dot: estimate, line: 95 % interval of a paired "
                       "bootstrap over documents (10,000 resamples). Each length has its own scale. ",
                       seeds_sentence(results), " ", training_sentence(results));
  figure.description = "Forest plot; the values are in the table of paired differences.";
  return figure;
}

}  // namespace

Section differences_section(const Results& results, Palette& palette) {
  Section section{.id = "differences", .title = "Paired differences"};
  if (results.lm.empty()) return section;
  Comparisons comparisons;
  const auto protocols = protocols_of(results);
  std::string headline = protocols.front();
  for (const char* better : {"sliding", "anchored"}) {   // the same targets at every length tell most
    if (std::find(protocols.begin(), protocols.end(), better) != protocols.end()) headline = better;
  }

  std::vector<std::pair<const Arm*, const Arm*>> arms;
  for (const Arm& arm : results.arms) {
    const Arm* base = find_arm(results, results.baseline, arm.variant);
    if (base && base != &arm) arms.emplace_back(&arm, base);
  }
  if (!arms.empty()) {
    const std::string against = cat(results.baseline, tells_variants(results) ? " of the same kind of model" : "");
    const auto pairs = pairs_of(results, arms, comparisons);
    section.figures.push_back(forest_of(results, pairs, headline, "differences", against, palette));
    section.tables.push_back(
        table_of(results, pairs, "differences", cat("Paired differences from ", results.baseline), against));
  }

  // A drop is compared with the same fresh schedule without a drop, or it is confounded with warming up again.
  std::vector<std::pair<const Arm*, const Arm*>> drops;
  for (const Arm& control : results.arms) {
    const auto at = control.variant.find("nodrop");
    if (at == std::string::npos) continue;
    std::string variant = control.variant;
    variant.erase(at, 2);
    if (const Arm* arm = find_arm(results, control.encoding, variant)) drops.emplace_back(arm, &control);
  }
  if (!drops.empty()) {
    const auto pairs = pairs_of(results, drops, comparisons);
    section.figures.push_back(
        forest_of(results, pairs, headline, "drop_effect", "the control that keeps its encoding", palette));
    section.tables.push_back(table_of(results, pairs, "drop_effect", "What dropping the encoding does",
                                      "the control that keeps its encoding under the same schedule"));
  }
  section.figures.erase(
      std::remove_if(section.figures.begin(), section.figures.end(), [](const Figure& f) { return f.panels.empty(); }),
      section.figures.end());
  return section;
}

}  // namespace pe::report
