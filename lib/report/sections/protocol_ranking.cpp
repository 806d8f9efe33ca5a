// Does the protocol decide the ranking? Rank correlation between protocols at each length, next to the correlation of
// two seeds under one protocol; and the cost of a length for each arm, by cause.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "report/results/comparison.h"
#include "report/sections/section.h"
#include "statistics/rankings.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

constexpr std::size_t kFewestArms = 4;  // three pairs or fewer are no ranking

/// Scores by seed of the arms that have all of them, at one length.
struct ProtocolScores {
  std::vector<const Arm*> arms;
  std::vector<std::string> seeds;                                         ///< that all of these arms have
  std::map<std::string, std::vector<ArmScore>> scores;                    ///< protocol → of each arm
  std::map<std::string, std::map<std::string, std::vector<double>>> nll;  ///< protocol → seed → of each arm
};

/// Arms of one variant: arms of another text, size or branch have another ranking.
std::optional<ProtocolScores> scored_at(const Results& results, const std::string& variant,
                                        const std::vector<std::string>& protocols, std::int64_t length) {
  ProtocolScores scored;
  for (const Arm& arm : results.arms) {
    if (arm.variant != variant) continue;
    const bool whole = std::all_of(protocols.begin(), protocols.end(),
                                   [&](const std::string& p) { return arm_score(results, arm, p, length).ok(); });
    if (whole) scored.arms.push_back(&arm);
  }
  if (scored.arms.size() < kFewestArms) return std::nullopt;
  for (const std::string& protocol : protocols) {
    for (const Arm* arm : scored.arms) scored.scores[protocol].push_back(arm_score(results, *arm, protocol, length));
  }
  std::vector<ArmScore>& first = scored.scores.begin()->second;
  for (const std::string& seed : first.front().seeds) {
    const bool common = std::all_of(first.begin(), first.end(), [&](const ArmScore& s) {
      return std::find(s.seeds.begin(), s.seeds.end(), seed) != s.seeds.end();
    });
    if (common) scored.seeds.push_back(seed);
  }
  for (const auto& [protocol, scores] : scored.scores) {
    for (const std::string& seed : scored.seeds) {
      for (const ArmScore& score : scores) {
        const auto at = std::find(score.seeds.begin(), score.seeds.end(), seed) - score.seeds.begin();
        scored.nll[protocol][seed].push_back(score.nll[static_cast<std::size_t>(at)]);
      }
    }
  }
  if (scored.seeds.empty()) return std::nullopt;
  return scored;
}

std::vector<double> means(const ProtocolScores& scored, const std::string& protocol) {
  std::vector<double> sums(scored.arms.size(), 0);
  for (const auto& [seed, values] : scored.nll.at(protocol)) {
    for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i] / static_cast<double>(scored.seeds.size());
  }
  return sums;
}

struct Agreement {
  std::vector<double> by_seed;             ///< τ of each seed's own rankings
  double of_means = 0;                     ///< τ of the means over seeds
  double reversed = 0;                     ///< share of pairs, by the means
  std::size_t pairs = 0, significant = 0;  ///< reversed, and significant under both protocols
};

Agreement agreement(const ProtocolScores& scored, const std::string& one, const std::string& other) {
  Agreement found;
  for (const std::string& seed : scored.seeds)
    found.by_seed.push_back(statistics::kendall_tau(scored.nll.at(one).at(seed), scored.nll.at(other).at(seed)));
  const auto a = means(scored, one), b = means(scored, other);
  found.of_means = statistics::kendall_tau(a, b);
  found.reversed = statistics::reversed_share(a, b);
  found.pairs = pairs_of_arms(scored.arms.size());
  for (std::size_t i = 0; i < scored.arms.size(); ++i) {
    for (std::size_t k = i + 1; k < scored.arms.size(); ++k) {
      const auto under_one = compare(scored.scores.at(one)[i], scored.scores.at(one)[k]);
      const auto under_other = compare(scored.scores.at(other)[i], scored.scores.at(other)[k]);
      const bool both = under_one && under_other && under_one->knows_seeds() && under_other->knows_seeds() &&
                        under_one->estimate * under_other->estimate < 0 &&
                        adjusted_p(*under_one, 2 * found.pairs) < 0.05 &&
                        adjusted_p(*under_other, 2 * found.pairs) < 0.05;
      found.significant += both;
    }
  }
  return found;
}

/// τ of two seeds under one protocol, of all pairs of seeds.
std::vector<double> seed_pairs(const ProtocolScores& scored, const std::string& protocol) {
  std::vector<double> found;
  const auto& by_seed = scored.nll.at(protocol);
  for (auto one = by_seed.begin(); one != by_seed.end(); ++one) {
    for (auto other = std::next(one); other != by_seed.end(); ++other)
      found.push_back(statistics::kendall_tau(one->second, other->second));
  }
  return found;
}

double between_seeds(const ProtocolScores& scored, const std::string& protocol) {
  return mean_of_finite(seed_pairs(scored, protocol));
}

Cell seed_cell(const std::vector<double>& values) {
  const statistics::SeedSummary summary = statistics::summarise_seeds(values);
  Cell cell = Cell::of_number(summary.mean);
  if (std::isfinite(summary.half_width))
    cell.half_width = summary.half_width;
  else if (values.size() == 2)
    cell.parts = values;
  return cell;
}

/// Of each variant, by length.
using Rankings = std::vector<std::pair<std::string, std::map<std::int64_t, ProtocolScores>>>;

Table agreement_table(const Results& results, const std::vector<std::string>& protocols, const Rankings& rankings) {
  Table table{.id = "rank_agreement", .title = "Agreement of rankings under two protocols"};
  table.columns = {
      {.id = "length", .header = "Length", .style = NumberStyle::kCount},
      {.id = "protocol", .header = "Protocol", .text = true},
      {.id = "other", .header = "Other", .text = true},
      {.id = "tau", .header = "of each seed", .group = "Kendall's tau", .style = NumberStyle::kPerplexity},
      {.id = "tau_means", .header = "of the means", .group = "Kendall's tau", .style = NumberStyle::kPerplexity},
      {.id = "tau_seeds", .header = "two seeds", .group = "Kendall's tau", .style = NumberStyle::kPerplexity},
      {.id = "reversed", .header = "all, %", .group = "pairs reversed", .style = NumberStyle::kPercent},
      {.id = "significant", .header = "significant", .group = "pairs reversed", .style = NumberStyle::kCount},
      {.id = "pairs", .header = "Pairs", .style = NumberStyle::kCount}};
  const bool variants = has_variants(results);
  if (variants) table.columns.insert(table.columns.begin(), {.id = "variant", .header = "Variant", .text = true});
  std::size_t seeds = 0;
  for (const auto& [variant, lengths] : rankings) {
    for (const auto& [length, scored] : lengths) {
      seeds = std::max(seeds, scored.seeds.size());
      bool first = true;
      for (std::size_t i = 0; i < protocols.size(); ++i) {
        for (std::size_t k = i + 1; k < protocols.size(); ++k) {
          const Agreement found = agreement(scored, protocols[i], protocols[k]);
          const double other_seed = (between_seeds(scored, protocols[i]) + between_seeds(scored, protocols[k])) / 2;
          Row row{.cells = {Cell::of_number(static_cast<double>(length)), Cell::of_text(protocols[i]),
                            Cell::of_text(protocols[k]), seed_cell(found.by_seed), Cell::of_number(found.of_means),
                            Cell::of_number(other_seed), Cell::of_number(found.reversed),
                            Cell::of_number(static_cast<double>(found.significant)),
                            Cell::of_number(static_cast<double>(found.pairs))},
                  .rule_above = first && !table.rows.empty()};
          if (variants) row.cells.insert(row.cells.begin(), Cell::of_text(variant));
          table.rows.push_back(std::move(row));
          first = false;
        }
      }
    }
  }
  table.caption =
      cat("Kendall's tau_b of the rankings of the arms by mean NLL: of each seed's own rankings (mean over ",
          seeds_in_words(seeds),
          ", ± 95 % t interval from three on), of the means over seeds, and, for comparison, of two seeds under one "
          "protocol (mean over pairs "
          "of seeds and both protocols). Significant: the pair differs under both protocols, in opposite directions, "
          "each with p below 0.05, which takes three seeds, "
          "after Bonferroni's correction for all pairs and both protocols. ",
          training_sentence(results));
  return table;
}

Panel agreement_panel(const Results& results, const std::vector<std::string>& protocols, const std::string& headline,
                      const std::map<std::int64_t, ProtocolScores>& lengths) {
  const std::string other_seed = cat(headline, ", another seed");
  Palette palette;  // of protocols
  std::vector<std::string> names{other_seed};
  names.insert(names.end(), protocols.begin(), protocols.end());
  palette.tell_apart(names);
  Panel panel;
  if (results.train_length > 0)
    panel.rules.push_back({true, static_cast<double>(results.train_length), "training length"});
  for (const std::string& protocol : protocols) {
    if (protocol == headline) continue;
    Series series{.name = protocol, .look = palette.look(protocol), .points = {}};
    for (const auto& [length, scored] : lengths) {
      const statistics::SeedSummary tau = statistics::summarise_seeds(agreement(scored, headline, protocol).by_seed);
      Point point{.x = static_cast<double>(length), .y = tau.mean, .n = static_cast<double>(tau.seeds)};
      if (std::isfinite(tau.half_width)) {
        point.low = tau.mean - tau.half_width;
        point.high = std::min(1.0, tau.mean + tau.half_width);
      }
      series.points.push_back(point);
    }
    panel.series.push_back(std::move(series));
  }
  Look look = palette.look(other_seed);
  look.dash = Dash::kDashed;
  Series other{.name = other_seed, .role = Series::Role::kLine, .look = look, .points = {}};
  for (const auto& [length, scored] : lengths) {
    const std::vector<double> pairs = seed_pairs(scored, headline);
    Point point{.x = static_cast<double>(length), .y = mean_of_finite(pairs), .n = static_cast<double>(pairs.size())};
    if (pairs.size() > 2)
      std::tie(point.low, point.high) =
          std::pair(*std::min_element(pairs.begin(), pairs.end()), *std::max_element(pairs.begin(), pairs.end()));
    other.points.push_back(point);
  }
  if (lengths.begin()->second.seeds.size() > 1) panel.series.push_back(std::move(other));
  return panel;
}

Figure agreement_figure(const Results& results, const std::vector<std::string>& protocols, const std::string& headline,
                        const Rankings& rankings) {
  Figure figure{.id = "rank_agreement",
                .title = cat("Agreement of rankings with that under ", headline),
                .x = {.title = "Context length, tokens", .scale = Scale::kLog2, .ticks = TickStyle::kCount},
                .y = {.title = cat("Kendall's tau with ", headline, ", higher is more agreement")}};
  figure.y.high = 1.02;
  for (const auto& [variant, lengths] : rankings) {
    figure.panels.push_back(agreement_panel(results, protocols, headline, lengths));
    figure.panels.back().title = variant;
  }
  figure.caption =
      cat("Kendall's tau between the ranking of the arms under ", headline,
          " and under each other protocol, of the same seed: mean and 95 % t "
          "interval over seeds. Dashed: between two seeds under ",
          headline, ", mean over pairs of seeds, with the lowest and the highest pair. ", training_sentence(results));
  figure.description = "Line chart of rank correlation against length; the values are in the table of agreement.";
  return figure;
}

}  // namespace

Section protocol_ranking_section(const Results& results, Palette&) {
  Section section{.id = "protocol_ranking", .title = "Does the protocol decide the ranking?"};
  if (!results.rankings || results.lm.empty()) return section;
  const auto protocols = protocols_of(results);
  const std::string headline = headline_protocol(results);
  Rankings rankings;
  for (const std::string& variant : results.variants) {
    std::map<std::int64_t, ProtocolScores> lengths;
    for (const std::int64_t length : lengths_of(results, headline)) {
      if (auto scored = scored_at(results, variant, protocols, length)) lengths.emplace(length, std::move(*scored));
    }
    if (!lengths.empty()) rankings.emplace_back(variant, std::move(lengths));
  }
  if (protocols.size() < 2 || rankings.empty()) return section;
  section.figures.push_back(agreement_figure(results, protocols, headline, rankings));
  section.tables.push_back(agreement_table(results, protocols, rankings));
  for (const auto& [variant, lengths] : rankings) {
    const auto& [length, scored] = *lengths.rbegin();
    std::string lowest;
    statistics::SeedSummary least;
    for (const std::string& protocol : protocols) {
      if (protocol == headline) continue;
      const statistics::SeedSummary tau = statistics::summarise_seeds(agreement(scored, headline, protocol).by_seed);
      if (lowest.empty() || tau.mean < least.mean) {
        lowest = protocol;
        least = tau;
      }
    }
    const Agreement found = agreement(scored, headline, lowest);
    section.findings.push_back(cat(
        variant.empty() ? "At " : cat(variant, ", at "), tokens_header(results, length), " the rankings under ",
        headline, " and ", lowest, " agree with a Kendall's tau of ",
        format_number(least.mean, NumberStyle::kPerplexity),
        std::isfinite(least.half_width) ? cat(" ± ", format_number(least.half_width, NumberStyle::kPerplexity)) : "",
        " (", seeds_in_words(least.seeds), "), two seeds under ", headline, " with ",
        format_number(between_seeds(scored, headline), NumberStyle::kPerplexity), "; ",
        format_number(found.reversed, NumberStyle::kPercent), " % of the ", found.pairs,
        " pairs of encodings are reversed, ", found.significant, " of them significantly under both."));
  }
  return section;
}

}  // namespace pe::report
