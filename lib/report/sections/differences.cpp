// Paired differences: every encoding against the baseline, and every dropped encoding against its control.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/results/comparison.h"
#include "report/sections/section.h"
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
  std::optional<statistics::TwoLevel> difference;
  double p_holm = NAN;
};

const Arm* find_arm(const Results& results, const std::string& encoding, const std::string& variant) {
  for (const Arm& arm : results.arms) {
    if (arm.encoding == encoding && arm.variant == variant) return &arm;
  }
  return nullptr;
}

/// Holm's p of each, in its own family: the arms of one protocol and length.
void adjust(std::vector<Pair>& pairs) {
  std::map<std::pair<std::string, std::int64_t>, std::vector<std::size_t>> families;
  for (std::size_t i = 0; i < pairs.size(); ++i) families[{pairs[i].protocol, pairs[i].length}].push_back(i);
  for (const auto& [key, members] : families) {
    std::vector<double> p;
    for (const std::size_t i : members) p.push_back(pairs[i].difference ? pairs[i].difference->p : NAN);
    const std::vector<double> adjusted = statistics::holm(p);
    for (std::size_t k = 0; k < members.size(); ++k) pairs[members[k]].p_holm = adjusted[k];
  }
}

std::vector<Pair> pairs_of(const Results& results, const std::vector<std::pair<const Arm*, const Arm*>>& arms) {
  std::vector<Pair> pairs;
  const std::vector<LmPlace> places = lm_places(results);
  for (const auto& [arm, base] : arms) {
    for (const auto& [protocol, length] : places) {
      Pair pair{arm,
                base,
                protocol,
                length,
                arm_score(results, *arm, protocol, length),
                arm_score(results, *base, protocol, length),
                {}};
      pair.difference = compare(pair.score, pair.base_score);
      pairs.push_back(std::move(pair));
    }
  }
  adjust(pairs);
  return pairs;
}

/// The noise that intervals hold, in words.
std::string noise_words(std::size_t fewest_seeds, std::size_t most_seeds) {
  if (fewest_seeds == 0) return "none";
  if (fewest_seeds < statistics::kSeedsForNoise && most_seeds >= statistics::kSeedsForNoise)
    return "seeds and documents from three seeds on, else documents alone";
  if (fewest_seeds >= statistics::kSeedsForNoise) return cat("seeds and documents (", fewest_seeds, " seeds)");
  return cat("documents alone, with ", seeds_in_words(fewest_seeds), " the noise of training is unknown");
}

/// The runs of both sides, of seeds that both have.
std::vector<std::size_t> runs_of(const Results& results, const Pair& pair) {
  std::vector<std::size_t> runs;
  for (const auto& [own, other] : {std::pair{pair.arm, pair.base}, {pair.base, pair.arm}}) {
    for (const std::size_t run : own->runs) {
      if (std::any_of(other->runs.begin(), other->runs.end(),
                      [&](std::size_t one) { return results.runs[one].seed == results.runs[run].seed; }))
        runs.push_back(run);
    }
  }
  return runs;
}

Table differences_table(const Results& results, const std::vector<Pair>& pairs, const std::string& id,
                        const std::string& title, const std::string& against) {
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
                        {.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount},
                        {.id = "documents", .header = "n", .style = NumberStyle::kCount},
                        {.id = "relative_ppl", .header = "Perplexity, %", .style = NumberStyle::kSignedPercent},
                        {.id = "p", .header = "p", .style = NumberStyle::kProbability},
                        {.id = "p_holm", .header = "p (Holm)", .style = NumberStyle::kProbability}});
  std::size_t fewest_seeds = 0, most_seeds = 0;
  const Arm* last = nullptr;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Pair& pair = pairs[i];
    Row row{
        .cells = arm_cells(results, *pair.arm), .rule_above = last && last != pair.arm, .runs = runs_of(results, pair)};
    last = pair.arm;
    row.cells.push_back(Cell::of_text(pair.protocol));
    row.cells.push_back(Cell::of_number(static_cast<double>(pair.length)));
    if (pair.difference) {
      const statistics::TwoLevel& d = *pair.difference;
      fewest_seeds = fewest_seeds == 0 ? d.seeds : std::min(fewest_seeds, d.seeds);
      most_seeds = std::max(most_seeds, d.seeds);
      Cell delta = Cell::of_number(d.estimate);
      delta.best = d.knows_seeds() && d.estimate < 0 && pair.p_holm < 0.05;
      delta.few = d.few();
      row.cells.insert(row.cells.end(),
                       {delta, Cell::of_number(d.interval.low), Cell::of_number(d.interval.high),
                        Cell::of_number(static_cast<double>(d.seeds)), Cell::of_number(static_cast<double>(d.items)),
                        Cell::of_number(std::exp(d.estimate) - 1), Cell::of_number(d.p), Cell::of_number(pair.p_holm)});
    } else {
      const ArmScore& bad = pair.score.ok() ? pair.base_score : pair.score;
      const std::string reason = bad.ok() ? "no seed, or fewer than two documents, in common"
                                          : cat(pair.score.ok() ? cat("other side: ") : "", bad.reason);
      row.cells.push_back(Cell::missing(bad.ok() ? "n/a" : mark_of(bad.status), reason));
      for (int k = 0; k < 7; ++k) row.cells.push_back(Cell::of_text("–"));
    }
    table.rows.push_back(std::move(row));
  }
  table.caption = cat("Mean NLL minus the mean NLL of ", against,
                      ", in nats per token, paired by seed and document; below zero is better. Interval and p: ",
                      noise_words(fewest_seeds, most_seeds),
                      "; Holm's correction over the arms of one protocol and length; bold: below zero with a corrected "
                      "p below 0.05, from three seeds on. ",
                      training_sentence(results));
  return table;
}

/// The lengths of training, and the longest; all where these are few.
std::vector<std::int64_t> lengths_shown(const Results& results, const std::string& protocol) {
  const auto all = lengths_of(results, protocol);
  if (all.size() <= 2) return all;
  std::set<std::int64_t> trained;
  for (const Arm& arm : results.arms) trained.insert(train_length_of(results, arm));
  std::vector<std::int64_t> shown;
  for (const std::int64_t length : all) {
    if (trained.count(length) != 0 || length == all.back()) shown.push_back(length);
  }
  return shown;
}

/// Half of the axis: a difference beyond it would hide all others of many. Infinite where none would.
double reach_of_axis(const std::vector<const Pair*>& pairs) {
  std::vector<double> sizes;
  for (const Pair* pair : pairs) {
    if (pair->difference)
      sizes.push_back(std::max(std::abs(pair->difference->interval.low), std::abs(pair->difference->interval.high)));
  }
  const double reach = 5 * statistics::median_of(sizes);
  const bool hides = sizes.size() >= 5 && *std::max_element(sizes.begin(), sizes.end()) > reach;
  return hides ? reach : INFINITY;
}

struct Forest {
  std::string id, against, zero;  ///< `zero` names the line of no difference
  bool sorted = false;            ///< by the difference at the longest length; else in the order of the arms
};

/// From below.
std::vector<const Arm*> forest_rows(const std::vector<Pair>& pairs, const std::string& protocol, std::int64_t last,
                                    bool sorted) {
  std::vector<std::pair<double, const Arm*>> rows;
  for (const Pair& pair : pairs) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& known) { return known.second == pair.arm; });
    if (row == rows.end()) row = rows.insert(rows.end(), {INFINITY, pair.arm});
    if (pair.protocol == protocol && pair.length == last && pair.difference) row->first = pair.difference->estimate;
  }
  if (sorted)
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const Arm*> arms;
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) arms.push_back(row->second);
  return arms;
}

void add_row(const Results& results, const Pair& pair, double row, double reach, Palette& palette, Panel& panel) {
  if (!pair.difference) {
    const bool own = !pair.score.ok();
    const ArmScore& bad = own ? pair.score : pair.base_score;
    panel.flags.push_back({0, row,
                           bad.ok() ? "n/a"
                           : own    ? mark_of(bad.status)
                                    : cat("other side: ", mark_of(bad.status)),
                           ""});
    return;
  }
  const statistics::TwoLevel& d = *pair.difference;
  if (std::abs(d.estimate) > reach) {
    panel.flags.push_back(
        {d.estimate, row, cat("off the axis: ", format_number(d.estimate, NumberStyle::kSignedNats)), ""});
    return;
  }
  Series series{
      .name = arm_name(*pair.arm, has_variants(results)), .look = palette.look(pair.arm->encoding), .labelled = false};
  series.points.push_back(
      {.x = d.estimate, .y = row, .low = d.interval.low, .high = d.interval.high, .n = static_cast<double>(d.items)});
  panel.series.push_back(std::move(series));
}

Figure forest_of(const Results& results, const std::vector<Pair>& pairs, const std::string& protocol,
                 const Forest& forest, Palette& palette) {
  Figure figure{.id = forest.id,
                .title = cat("Difference from ", forest.against, ", ", protocol),
                .kind = Figure::Kind::kForest,
                .x = {.title = "Δ nats per token, lower is better"}};
  const auto lengths = lengths_shown(results, protocol);
  const std::vector<const Arm*> rows =
      forest_rows(pairs, protocol, lengths.empty() ? 0 : lengths.back(), forest.sorted);
  figure.y_names = row_names(results, rows);
  std::size_t fewest_seeds = 0, most_seeds = 0;
  for (const std::int64_t length : lengths) {
    Panel panel{.title = tokens_header(results, length)};
    std::vector<const Pair*> own;
    for (const Pair& pair : pairs) {
      if (pair.protocol == protocol && pair.length == length) own.push_back(&pair);
    }
    const double reach = reach_of_axis(own);
    double low = 0, high = 0;
    for (const Pair* pair : own) {
      add_row(results, *pair, static_cast<double>(std::find(rows.begin(), rows.end(), pair->arm) - rows.begin()), reach,
              palette, panel);
      if (!pair->difference) continue;
      const statistics::TwoLevel& d = *pair->difference;
      fewest_seeds = fewest_seeds == 0 ? d.seeds : std::min(fewest_seeds, d.seeds);
      most_seeds = std::max(most_seeds, d.seeds);
      if (std::abs(d.estimate) > reach) continue;
      low = std::min(low, std::max(d.interval.low, -reach));
      high = std::max(high, std::min(d.interval.high, reach));
    }
    if (panel.series.empty()) continue;
    const double air = std::max(0.06 * (high - low), 1e-4);
    panel.x_low = low - air;  // each length has its own range: a model that explodes would hide all else
    panel.x_high = high + air;
    panel.rules.push_back({true, 0, forest.zero});
    figure.panels.push_back(std::move(panel));
  }
  figure.caption =
      cat("Difference of mean NLL from ", forest.against, ", paired by seed and document, ", protocol,
          " protocol; line: 95 % interval over ", noise_words(fewest_seeds, most_seeds), ". ",
          join_as_sentence(
              {forest.sorted ? "sorted by the difference at the longest length" : "", "each length has its own scale",
               lengths.size() < lengths_of(results, protocol).size() ? "other lengths are in the table" : ""}),
          " ", training_sentence(results));
  figure.description = "Forest plot; the values are in the table of paired differences.";
  return figure;
}

}  // namespace

Section differences_section(const Results& results, Palette& palette) {
  Section section{.id = "differences", .title = "Paired differences"};
  if (results.lm.empty()) return section;
  const std::string headline = headline_protocol(results);

  // Models of tasks are in the same report, and no text was read to them.
  std::set<std::size_t> runs;
  for (const LmCell& cell : results.lm) runs.insert(cell.run);
  const std::vector<const Arm*> read = arms_with(results, runs);
  const auto was_read = [&](const Arm* arm) { return std::find(read.begin(), read.end(), arm) != read.end(); };
  std::vector<std::pair<const Arm*, const Arm*>> arms;
  for (const Arm& arm : results.arms) {
    const Arm* base = find_arm(results, results.baseline, arm.variant);
    if (base && base != &arm && (was_read(&arm) || was_read(base))) arms.emplace_back(&arm, base);
  }
  if (!arms.empty()) {
    const std::string against = cat(results.baseline, has_variants(results) ? " of the same variant" : "");
    const auto pairs = pairs_of(results, arms);
    section.figures.push_back(
        forest_of(results, pairs, headline, {"differences", against, results.baseline, true}, palette));
    section.tables.push_back(
        differences_table(results, pairs, "differences", cat("Paired differences from ", results.baseline), against));
  }

  // A drop is compared with the same new schedule without a drop, or it is confounded with warming up again.
  std::vector<std::pair<const Arm*, const Arm*>> drops;
  for (const Arm& control : results.arms) {
    const auto at = control.variant.find("nodrop");
    if (at == std::string::npos) continue;
    std::string variant = control.variant;
    variant.erase(at, 2);
    if (const Arm* arm = find_arm(results, control.encoding, variant)) drops.emplace_back(arm, &control);
  }
  if (!drops.empty()) {
    const auto pairs = pairs_of(results, drops);
    section.figures.push_back(forest_of(results, pairs, headline,
                                        {"drop_effect", "the control that keeps its encoding", "control"}, palette));
    section.tables.push_back(differences_table(results, pairs, "drop_effect", "Effect of dropping the encoding",
                                               "the control that keeps its encoding under the same schedule"));
  }
  section.figures.erase(
      std::remove_if(section.figures.begin(), section.figures.end(), [](const Figure& f) { return f.panels.empty(); }),
      section.figures.end());
  return section;
}

}  // namespace pe::report
