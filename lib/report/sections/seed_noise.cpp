// How many seeds does a comparison need? The parts of the noise at each length, what so many seeds can find, and how
// often one training of each arm orders two arms wrongly.
#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "report/results/comparison.h"
#include "report/sections/section.h"
#include "statistics/estimates.h"
#include "statistics/rankings.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

constexpr std::size_t kFewestSeeds = 5;  // with fewer a standard deviation is hardly known

/// One arm at one length: losses of documents by seed.
struct ArmNoise {
  const Arm* arm = nullptr;
  std::vector<std::vector<double>> values;  ///< [seed][document], linearised
  std::vector<double> means;                ///< of each seed
  std::vector<std::string> seeds;
};

std::optional<ArmNoise> noise_of(const Results& results, const Arm& arm, const std::string& protocol,
                                 std::int64_t length) {
  const ArmScore score = arm_score(results, arm, protocol, length);
  if (!score.ok() || score.cells.size() < kFewestSeeds) return std::nullopt;
  ArmNoise noise{.arm = &arm, .values = {}, .means = score.nll, .seeds = score.seeds};
  for (const LmCell* cell : score.cells) {
    if (cell->scores.size() != score.cells.front()->scores.size()) return std::nullopt;
    statistics::SeedItems items;
    for (std::size_t d = 0; d < cell->scores.size(); ++d) {
      if (cell->scores[d].id != score.cells.front()->scores[d].id) return std::nullopt;  // other documents
      items.y.push_back(cell->scores[d].nll);
      items.x.push_back(static_cast<double>(cell->scores[d].tokens));
    }
    if (items.y.size() < 2) return std::nullopt;
    noise.values.push_back(statistics::linearised(items));
  }
  return noise;
}

/// Standard deviation of the seeds' means with its 95 % interval.
struct Spread {
  double sd = 0;
  statistics::Interval interval;
};
Spread spread_of(const std::vector<double>& means) {
  const double n = static_cast<double>(means.size());
  double mean = 0, squares = 0;
  for (const double one : means) mean += one / n;
  for (const double one : means) squares += (one - mean) * (one - mean);
  const boost::math::chi_squared chi(n - 1);
  return {
      std::sqrt(squares / (n - 1)),
      {std::sqrt(squares / boost::math::quantile(chi, 0.975)), std::sqrt(squares / boost::math::quantile(chi, 0.025))}};
}

struct AtLength {
  std::int64_t length = 0;
  std::vector<ArmNoise> arms;
  // Over the pairs of arms:
  std::vector<double> seed_sd, item_sd, same_seed, any_seeds;
  std::size_t items = 0, seeds = 0, pairs = 0, significant = 0;
};

/// In the order of the first one's seeds.
std::pair<std::vector<double>, std::vector<double>> means_of_common_seeds(const ArmNoise& a, const ArmNoise& b) {
  std::pair<std::vector<double>, std::vector<double>> means;
  for (std::size_t s = 0; s < a.seeds.size(); ++s) {
    const auto other = std::find(b.seeds.begin(), b.seeds.end(), a.seeds[s]);
    if (other == b.seeds.end()) continue;
    means.first.push_back(a.means[s]);
    means.second.push_back(b.means[static_cast<std::size_t>(other - b.seeds.begin())]);
  }
  return means;
}

AtLength at_length(const Results& results, const std::string& protocol, std::int64_t length) {
  AtLength at{.length = length};
  for (const Arm& arm : results.arms) {
    if (auto noise = noise_of(results, arm, protocol, length)) at.arms.push_back(std::move(*noise));
  }
  struct Pair {
    const ArmNoise *a, *b;
    statistics::TwoLevel difference;
  };
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < at.arms.size(); ++i) {
    for (std::size_t k = i + 1; k < at.arms.size(); ++k) {
      const ArmNoise &a = at.arms[i], &b = at.arms[k];
      if (a.arm->variant != b.arm->variant) continue;  // of another text, size or branch
      const auto difference =
          compare(arm_score(results, *a.arm, protocol, length), arm_score(results, *b.arm, protocol, length));
      if (difference && difference->seeds >= kFewestSeeds) pairs.push_back({&a, &b, *difference});
    }
  }
  at.pairs = pairs.size();
  for (const auto& [a, b, difference] : pairs) {
    at.items = difference.items;
    at.seeds = difference.seeds;
    at.seed_sd.push_back(std::sqrt(difference.seed_variance * static_cast<double>(difference.seeds)));
    at.item_sd.push_back(std::sqrt(difference.item_variance * static_cast<double>(difference.items)));
    if (adjusted_p(difference, at.pairs) >= 0.05) continue;  // which of them is better is not known
    ++at.significant;
    const auto [of_a, of_b] = means_of_common_seeds(*a, *b);
    const statistics::WrongOrder wrong = statistics::wrong_order(of_a, of_b);
    at.same_seed.push_back(wrong.same_seed);
    at.any_seeds.push_back(wrong.any_seeds);
  }
  return at;
}

Table parts_table(const Results& results, const std::vector<AtLength>& lengths, const std::string& protocol) {
  Table table{.id = "noise_parts", .title = "Noise of training, of documents, and of both together"};
  table.columns = {{.id = "length", .header = "Length", .style = NumberStyle::kCount}};
  for (Column& column : arm_columns(results)) table.columns.push_back(std::move(column));
  table.columns.insert(
      table.columns.end(),
      {{.id = "nll", .header = "NLL", .style = NumberStyle::kNats},
       {.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount},
       {.id = "spread", .header = "of a seed's mean", .group = "sd, nats", .style = NumberStyle::kNats},
       {.id = "seed", .header = "seed", .group = "parts: sd, nats", .style = NumberStyle::kNats},
       {.id = "document", .header = "document", .group = "parts: sd, nats", .style = NumberStyle::kNats},
       {.id = "rest", .header = "interaction", .group = "parts: sd, nats", .style = NumberStyle::kNats}});
  for (const AtLength& at : lengths) {
    bool first = !table.rows.empty();
    for (const ArmNoise& noise : at.arms) {
      const statistics::NoiseParts parts = statistics::noise_parts(noise.values);
      const Spread spread = spread_of(noise.means);
      Row row{.cells = {Cell::of_number(static_cast<double>(at.length))}, .rule_above = first};
      first = false;
      for (Cell& cell : arm_cells(results, *noise.arm)) row.cells.push_back(std::move(cell));
      Cell sd = Cell::of_number(spread.sd);
      sd.interval = spread.interval;
      row.cells.insert(
          row.cells.end(),
          {Cell::of_number(mean_of_finite(noise.means)), Cell::of_number(static_cast<double>(noise.means.size())), sd,
           Cell::of_number(parts.seed), Cell::of_number(parts.item), Cell::of_number(parts.rest)});
      table.rows.push_back(std::move(row));
    }
  }
  table.caption = cat("Mean NLL (", protocol,
                      ") and how it varies. Of a seed's mean: standard deviation over seeds, with its 95 % interval "
                      "(chi-square). Parts: "
                      "a loss is mean + seed + document + interaction of the two; interaction is the effect of "
                      "another seed on single documents. ",
                      training_sentence(results));
  return table;
}

Table noise_table(const std::vector<AtLength>& lengths, const std::string& protocol) {
  Table table{.id = "seeds_needed", .title = "Differences that more seeds can detect"};
  table.columns = {{.id = "length", .header = "Length", .style = NumberStyle::kCount},
                   {.id = "seed_sd", .header = "sd of a difference, nats", .style = NumberStyle::kNats},
                   {.id = "detect_1",
                    .header = "1 seed",
                    .group = "smallest difference found in 80 %, nats",
                    .style = NumberStyle::kNats}};
  const std::size_t counts[] = {3, 5, 10};
  for (const std::size_t seeds : counts) {
    table.columns.push_back({.id = cat("detect_", seeds),
                             .header = cat(seeds, " seeds"),
                             .group = "smallest difference found in 80 %, nats",
                             .style = NumberStyle::kNats});
  }
  table.columns.insert(table.columns.end(),
                       {{.id = "significant", .header = "significant", .group = "pairs", .style = NumberStyle::kCount},
                        {.id = "pairs", .header = "all", .group = "pairs", .style = NumberStyle::kCount},
                        {.id = "wrong_same",
                         .header = "same seed, %",
                         .group = "ordered wrongly by one training each",
                         .style = NumberStyle::kPercent},
                        {.id = "wrong_any",
                         .header = "any seeds, %",
                         .group = "ordered wrongly by one training each",
                         .style = NumberStyle::kPercent}});
  for (const AtLength& at : lengths) {
    const statistics::NoiseLevels noise{statistics::median_of(at.seed_sd), statistics::median_of(at.item_sd)};
    Row row{.cells = {Cell::of_number(static_cast<double>(at.length)), Cell::of_number(noise.seed),
                      Cell::of_number(statistics::detectable_by_one_seed(noise.seed, noise.item, at.items))}};
    for (const std::size_t seeds : counts)
      row.cells.push_back(Cell::of_number(statistics::detectable_difference(noise, seeds, at.items)));
    row.cells.push_back(Cell::of_number(static_cast<double>(at.significant)));
    row.cells.push_back(Cell::of_number(static_cast<double>(at.pairs)));
    for (const auto& values : {at.same_seed, at.any_seeds}) {
      row.cells.push_back(values.empty() ? Cell::missing("n/a", "no pair differs significantly")
                                         : Cell::of_number(mean_of_finite(values)));
    }
    table.rows.push_back(std::move(row));
  }
  table.caption =
      cat("Medians over the pairs of encodings, ", protocol,
          " protocol, with as many documents as here; a power of 80 % at 5 %, two-sided, paired by seed. "
          "One seed: were the noise of training known beforehand, which one seed cannot tell. Ordered wrongly: of the "
          "pairs that differ "
          "significantly over all seeds, the mean share of single trainings that put them in the other order.");
  return table;
}

Figure spread_figure(const Results& results, const std::vector<AtLength>& lengths, const std::string& protocol,
                     Palette& palette) {
  Figure figure{.id = "seed_noise",
                .title = "Noise of training against length",
                .x = {.title = "Context length, tokens", .scale = Scale::kLog2, .ticks = TickStyle::kCount},
                .y = {.title = "sd over seeds, nats per token", .scale = Scale::kLog10}};
  Panel panel;
  if (results.train_length > 0)
    panel.rules.push_back({true, static_cast<double>(results.train_length), "training length"});
  std::map<const Arm*, Series> series;
  for (const AtLength& at : lengths) {
    for (const ArmNoise& noise : at.arms) {
      const Spread spread = spread_of(noise.means);
      Series& own =
          series
              .try_emplace(noise.arm,
                           Series{.name = noise.arm->encoding, .look = palette.look(noise.arm->encoding), .points = {}})
              .first->second;
      own.points.push_back({.x = static_cast<double>(at.length),
                            .y = spread.sd,
                            .low = spread.interval.low,
                            .high = spread.interval.high,
                            .n = static_cast<double>(noise.means.size())});
    }
  }
  for (const std::string& variant : results.variants) {
    Panel own_panel = panel;
    if (has_variants(results)) own_panel.title = variant;
    for (const Arm& arm : results.arms) {
      if (const auto own = series.find(&arm); own != series.end() && arm.variant == variant)
        own_panel.series.push_back(own->second);
    }
    if (!own_panel.series.empty()) figure.panels.push_back(std::move(own_panel));
  }
  figure.caption = cat("Standard deviation over seeds of the mean NLL (", protocol,
                       "), with its 95 % interval (chi-square). ", training_sentence(results));
  figure.description =
      "Line chart of the standard deviation over seeds against length; the values are in the table of noise.";
  return figure;
}

}  // namespace

Section seed_noise_section(const Results& results, Palette& palette) {
  Section section{.id = "seed_noise", .title = "How many seeds does a comparison need?"};
  if (!results.rankings || results.lm.empty()) return section;
  const std::string protocol = headline_protocol(results);
  std::vector<AtLength> lengths;
  for (const std::int64_t length : lengths_of(results, protocol)) {
    if (AtLength at = at_length(results, protocol, length); !at.seed_sd.empty()) lengths.push_back(std::move(at));
  }
  if (lengths.empty()) return section;
  section.figures.push_back(spread_figure(results, lengths, protocol, palette));
  section.tables.push_back(noise_table(lengths, protocol));
  section.tables.push_back(parts_table(results, lengths, protocol));
  const AtLength& last = lengths.back();
  if (!last.any_seeds.empty()) {
    section.findings.push_back(cat(
        "At ", tokens_header(results, last.length), " one training of each encoding orders a pair wrongly in ",
        format_number(mean_of_finite(last.any_seeds), NumberStyle::kPercent), " % of cases, of the ", last.significant,
        " pairs of ", last.pairs, " that differ significantly over ", seeds_in_words(last.seeds), "."));
  }
  return section;
}

}  // namespace pe::report
