// Perplexity against context length: the protocols side by side, as a figure and as tables.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "report/results/comparison.h"
#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

std::string protocol_words(const Results& results, const std::string& protocol) {
  std::set<std::int64_t> strides;
  for (const LmCell& cell : results.lm) {
    if (cell.protocol == protocol && cell.stride > 0 && cell.stride != cell.length) strides.insert(cell.stride);
  }
  if (protocol == "prefix") return "prefix: one window from the start of each document";
  if (protocol == "blocks") return "blocks: windows that do not overlap";
  if (protocol == "sliding" && strides.size() == 1)
    return cat("sliding: windows every ", support::with_commas(*strides.begin()), " tokens, only new tokens scored");
  if (protocol == "sliding") return "sliding: overlapping windows, only new tokens scored";
  if (protocol == "anchored") return "anchored: the same targets at every length, before up to four ends of each document";
  return "";
}

std::string documents_sentence(const Results& results) {
  double fewest = 1e300, most = 0;
  std::set<std::string> corpora;
  for (const LmCell& cell : results.lm) {
    if (cell.status != "ok" && cell.status != "overflow") continue;
    fewest = std::min(fewest, cell.documents);
    most = std::max(most, cell.documents);
    if (!cell.corpus.empty()) corpora.insert(cell.corpus);
  }
  if (most == 0) return "";
  const std::string count = fewest == most ? support::with_commas(std::llround(most))
                                           : cat(support::with_commas(std::llround(fewest)), " to ",
                                                 support::with_commas(std::llround(most)));
  return cat("n = ", count, " documents", corpora.size() == 1 ? cat(" (", *corpora.begin(), " split)") : "",
             ", the same for every model",
             fewest < statistics::kFewItems ? cat("; below ", statistics::kFewItems, " intervals are rough") : "", ".");
}

/// The mean context of a protocol at a length, of all models that have it; empty where nothing says it.
std::string context_words(const Results& results, const std::string& protocol, std::int64_t length) {
  std::vector<double> contexts;
  for (const LmCell& cell : results.lm) {
    if (cell.protocol == protocol && cell.length == length) contexts.push_back(cell.context);
  }
  const double mean = mean_of_finite(contexts);
  return std::isfinite(mean) ? support::with_commas(std::llround(mean)) : "";
}

std::string caption(const Results& results) {
  std::vector<std::string> protocols;
  for (const std::string& protocol : protocols_of(results)) protocols.push_back(protocol_words(results, protocol));
  return cat(as_one(protocols), " ", as_one({documents_sentence(results), seeds_sentence(results), training_sentence(results)}));
}

Cell score_cell(const ArmScore& score) {
  if (!score.ok()) return Cell::missing(mark_of(score.status), score.reason);
  const statistics::SeedSummary summary = statistics::summarise_seeds(score.nll);
  Cell cell = Cell::of_number(std::exp(summary.mean));
  cell.few = score.documents < statistics::kFewItems;
  if (std::isfinite(summary.half_width)) {
    // Of the logarithm, and so not symmetric.
    cell.interval =
        statistics::Interval{std::exp(summary.mean - summary.half_width), std::exp(summary.mean + summary.half_width)};
  } else if (score.nll.size() == 2) {
    for (const double nll : score.nll) cell.parts.push_back(std::exp(nll));
  }
  return cell;
}

Figure perplexity_figure(const Results& results, Palette& palette) {
  Figure figure{.id = "perplexity_length",
                .title = "Perplexity against context length",
                .x = {.title = "Context length, tokens", .scale = Scale::kLog2, .ticks = TickStyle::kCount},
                .y = {.title = "Perplexity, lower is better", .scale = Scale::kLog10}};
  const auto protocols = protocols_of(results);
  std::map<std::string, std::vector<std::int64_t>> lengths_under;
  for (const std::string& protocol : protocols) lengths_under[protocol] = lengths_of(results, protocol);
  figure.columns = static_cast<int>(std::min<std::size_t>(3, protocols.size()));
  if (protocols.size() == 1) figure.columns = 2;
  double lowest = INFINITY, highest = 0;
  bool banded = false;
  for (const std::string& variant : results.variants) {
    std::vector<Panel> panels;
    for (const std::string& protocol : protocols) {
      Panel panel;
      panel.title = tells_variants(results) ? cat(variant, " · ", protocol) : protocol;
      add_training_rules(panel, results, variant);
      const auto& lengths = lengths_under.at(protocol);
      for (const Arm& arm : results.arms) {
        if (arm.variant != variant) continue;
        std::vector<double> xs;
        std::vector<std::vector<double>> values(arm.runs.size());
        std::vector<std::string> seeds;
        std::string end_note;
        std::int64_t last_known = 0;
        for (const std::int64_t length : lengths) {
          const ArmScore score = arm_score(results, arm, protocol, length);
          if (score.status == "na_positions" && end_note.empty() && last_known > 0)
            end_note = cat("n/a from ", support::with_commas(length));
          if (!score.ok() && score.status != "overflow") continue;
          last_known = length;
          xs.push_back(static_cast<double>(length));
          seeds = score.seeds;
          for (std::size_t s = 0; s < score.nll.size(); ++s) {
            values[s].push_back(score.nll[s]);
            if (std::isfinite(score.nll[s])) {
              lowest = std::min(lowest, std::exp(score.nll[s]));
              highest = std::max(highest, std::exp(score.nll[s]));
            }
          }
        }
        if (xs.empty()) continue;
        banded = banded || arm.runs.size() >= 3;
        add_arm_series(
            panel, arm, palette.look(arm.encoding), seeds, xs, values, [](double nll) { return std::exp(nll); },
            end_note);
      }
      panels.push_back(std::move(panel));
    }
    // Models that nobody evaluated, such as the trunks of trained branches, and protocols by which nobody did have no
    // panel.
    std::erase_if(panels, [](const Panel& panel) { return panel.series.empty(); });
    std::move(panels.begin(), panels.end(), std::back_inserter(figure.panels));
  }
  // A model that explodes would flatten all others: the axis ends at 30 times the lowest value.
  if (highest > 30 * lowest) figure.y.high = 30 * lowest;
  figure.caption =
      cat(caption(results), " Thick: mean over seeds of the log-likelihood; thin: single seeds",
          banded ? "; band: 95 % t interval over seeds, from three on" : "",
          std::isnan(figure.y.high) ? "." : "; arrow: a curve that leaves the plot, with its last value.");
  figure.description = cat("Line chart of perplexity against context length for ",
                           support::join(results.encodings, ", "), ". The values are in the table that follows.");
  return figure;
}

Table perplexity_table(const Results& results) {
  Table table{.id = "perplexity_length", .title = "Perplexity against context length"};
  table.columns = arm_columns(results);
  table.columns.push_back({.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount});
  const std::vector<LmPlace> places = lm_places(results);
  bool contexts = false;   // are known
  for (const auto& [protocol, length] : places) {
    const std::string context = context_words(results, protocol, length);
    contexts = contexts || !context.empty();
    table.columns.push_back({.id = cat("ppl_", protocol, "_", length),
                             .header = length_header(results, length),
                             .group = protocol,
                             .note = context,
                             .style = NumberStyle::kPerplexity,
                             .direction = Direction::kLowerIsBetter});
  }
  std::size_t fewest_seeds = 0;
  for (const std::string& variant : results.variants) {
    const std::size_t first = table.rows.size();
    std::vector<std::vector<ArmScore>> scores;
    for (const Arm& arm : results.arms) {
      if (arm.variant != variant) continue;
      Row row{.cells = arm_cells(results, arm), .rule_above = table.rows.size() == first && first > 0};
      row.cells.push_back(Cell::of_number(static_cast<double>(arm.runs.size())));
      scores.emplace_back();
      for (const LmPlace& place : places) {
        scores.back().push_back(arm_score(results, arm, place.protocol, place.length));
        row.cells.push_back(score_cell(scores.back().back()));
      }
      table.rows.push_back(std::move(row));
    }
    const std::size_t lead = table.columns.size() - places.size();
    for (std::size_t p = 0; p < places.size(); ++p) {
      std::vector<Cell*> cells;
      std::vector<const ArmScore*> column;
      for (std::size_t r = 0; r < scores.size(); ++r) {
        cells.push_back(&table.rows[first + r].cells[lead + p]);
        column.push_back(&scores[r][p]);
      }
      const std::size_t seeds = mark_best(cells, column);
      if (seeds > 0) fewest_seeds = fewest_seeds == 0 ? seeds : std::min(fewest_seeds, seeds);
    }
  }
  table.caption = cat(caption(results), " ", as_one({contexts ? "In brackets below a length: mean number of tokens before a scored one" : "",
                      "mean over seeds of the log-likelihood, with its 95 % t interval over seeds from three on", "two seeds "
                      "are both printed", bold_sentence(fewest_seeds).substr(fewest_seeds > 0 ? 1 : 0)}));
  return table;
}

Table perplexity_seeds_table(const Results& results) {
  Table table{.id = "perplexity_seeds", .title = "Perplexity of every seed"};
  table.columns = arm_columns(results);
  table.columns.push_back({.id = "seed", .header = "Seed", .text = true});
  const std::vector<LmPlace> places = lm_places(results);
  for (const auto& [protocol, length] : places) {
    table.columns.push_back({.id = cat("ppl_", protocol, "_", length),
                             .header = length_header(results, length),
                             .group = protocol,
                             .style = NumberStyle::kPerplexity,
                             .direction = Direction::kLowerIsBetter});
  }
  for (const Arm& arm : results.arms) {
    bool first = !table.rows.empty();
    for (const std::size_t run : arm.runs) {
      Row row{.cells = arm_cells(results, arm), .rule_above = first};
      first = false;
      row.cells.push_back(Cell::of_text(results.runs[run].seed));
      const Arm alone{arm.encoding, arm.variant, {run}};
      for (const auto& [protocol, length] : places) row.cells.push_back(score_cell(arm_score(results, alone, protocol, length)));
      table.rows.push_back(std::move(row));
    }
  }
  table.caption = caption(results);
  return table;
}

/// Bits per byte, which tokenizers do not change, by length under the protocol of the sentences.
Table bits_table(const Results& results) {
  const std::string protocol = headline_protocol(results);
  Table table{.id = "bits_per_byte", .title = cat("Bits per byte, ", protocol)};
  table.columns = arm_columns(results);
  const auto lengths = lengths_of(results, protocol);
  for (const std::int64_t length : lengths) {
    table.columns.push_back({.id = cat("bpb_", length), .header = length_header(results, length), .direction = Direction::kLowerIsBetter});
  }
  bool any = false;
  for (const Arm& arm : results.arms) {
    Row row{.cells = arm_cells(results, arm)};
    for (const std::int64_t length : lengths) {
      const ArmScore score = arm_score(results, arm, protocol, length);
      any = any || std::isfinite(score.bpb);
      row.cells.push_back(score.ok() && std::isfinite(score.bpb) ? Cell::of_number(score.bpb)
                                                                 : Cell::missing(mark_of(score.ok() ? "not_measured" : score.status), score.ok() ? reason_of("not_measured") : score.reason));
    }
    table.rows.push_back(std::move(row));
  }
  if (!any) table.rows.clear();
  table.caption = as_one({"Mean over seeds", documents_sentence(results), training_sentence(results)});
  return table;
}

/// "57", "4.1", "0.8", "0.03".
std::string percent_in_words(double percent) {
  const double size = std::fabs(percent);
  return fmt::format("{:.{}f}", percent, size >= 9.95 ? 0 : size >= 0.095 ? 1 : 2);
}

/// "57 % below none (53 to 60)": how far the best is below the next, as a share of perplexity.
std::string lead_in_words(const statistics::TwoLevel& difference, const std::string& next) {
  const auto below = [](double nats) { return percent_in_words(-100 * std::expm1(nats)); };
  std::string text = cat(below(difference.estimate), " % below ", next, " (", below(difference.interval.high), " to ",
                         below(difference.interval.low));
  if (!difference.knows_seeds()) text += cat(", ", seeds_in_words(difference.seeds));
  return text + ")";
}

struct Findings {
  std::vector<std::string> sentences, lines;
};

// The comparison that most readers came for, in words, with its uncertainty.
Findings findings_of(const Results& results) {
  Findings findings;
  const std::string protocol = headline_protocol(results);
  const auto lengths = lengths_of(results, protocol);
  for (const std::string& variant : results.variants) {
    // Where models were trained, and the longest.
    std::vector<std::int64_t> asked;
    for (const std::int64_t length : train_lengths_of(results, variant)) {
      if (std::find(lengths.begin(), lengths.end(), length) != lengths.end()) asked.push_back(length);
    }
    if (asked.empty() || lengths.back() != asked.back()) asked.push_back(lengths.back());
    for (const std::int64_t length : asked) {
      struct Ranked {
        const Arm* arm;
        ArmScore score;
        double mean;
      };
      std::vector<Ranked> ranked;
      std::vector<std::string> absent;
      for (const Arm& arm : results.arms) {
        if (arm.variant != variant) continue;
        ArmScore score = arm_score(results, arm, protocol, length);
        if (score.ok()) {
          const double mean = statistics::summarise_seeds(score.nll).mean;
          ranked.push_back({&arm, std::move(score), mean});
        } else {
          absent.push_back(cat(arm.encoding, " ", mark_of(score.status)));
        }
      }
      if (ranked.size() < 2) continue;
      std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.mean < b.mean; });
      const auto perplexity = [](const Ranked& of) { return format_number(std::exp(of.mean), NumberStyle::kPerplexity); };
      const auto difference = compare(ranked[0].score, ranked[1].score);
      std::string text =
          cat(variant.empty() || !tells_variants(results) ? "" : variant + ": ", "at ", length_header(results, length),
              " tokens (", protocol, ") ", ranked[0].arm->encoding, " has the lowest perplexity, ", perplexity(ranked[0]), "; next ",
              ranked[1].arm->encoding, " with ", perplexity(ranked[1]));
      if (difference) text += cat(" (", certainty(*difference, adjusted_p(*difference, pairs_of_arms(ranked.size()))), ")");
      if (ranked.size() > 2) text += cat("; highest ", ranked.back().arm->encoding, " with ", perplexity(ranked.back()));
      if (!absent.empty()) text += cat("; ", support::join(absent, ", "));
      findings.sentences.push_back(text + ".");
      std::string line =
          cat(variant.empty() || !tells_variants(results) ? "" : variant + ": ", "perplexity at ",
              length_header(results, length), ": ", ranked[0].arm->encoding, " ", perplexity(ranked[0]), ", ",
              difference ? lead_in_words(*difference, ranked[1].arm->encoding)
                         : cat(ranked[1].arm->encoding, " ", perplexity(ranked[1])));
      if (ranked.size() > 2)
        add_if_it_fits(line, cat("; ", ranked.back().arm->encoding, " ", perplexity(ranked.back())));
      if (!absent.empty()) add_if_it_fits(line, cat("; ", support::join(absent, ", ")));
      // Beside verdicts of claims there is room for one: the longest length.
      if (results.claims.empty() || length == asked.back()) findings.lines.push_back(std::move(line));
    }
  }
  return findings;
}

}  // namespace

Section perplexity_section(const Results& results, Palette& palette) {
  Section section{.id = "perplexity", .title = "Perplexity against context length"};
  if (results.lm.empty()) return section;
  if (Figure figure = perplexity_figure(results, palette); !figure.panels.empty())
    section.figures.push_back(std::move(figure));
  section.tables.push_back(perplexity_table(results));
  const bool repeated =
      std::any_of(results.arms.begin(), results.arms.end(), [](const Arm& arm) { return arm.runs.size() > 1; });
  if (repeated) section.tables.push_back(perplexity_seeds_table(results));
  if (Table bits = bits_table(results); !bits.rows.empty()) section.tables.push_back(std::move(bits));
  Findings findings = findings_of(results);
  section.findings = std::move(findings.sentences);
  section.lines = std::move(findings.lines);
  return section;
}

}  // namespace pe::report
