// Perplexity against context length: the protocols side by side, as a figure and as tables.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "report/results/comparison.h"
#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

/// The arms to which text was read; others have models of tasks, say.
std::vector<const Arm*> readers(const Results& results) {
  std::set<std::size_t> runs;
  for (const LmCell& cell : results.lm) runs.insert(cell.run);
  return arms_with(results, runs);
}

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
  if (protocol == "anchored")
    return "anchored: the same targets at every length, before up to four ends of each document";
  return "";
}

/// Whether all models of one text were asked the same documents, where their numbers are known.
bool same_documents(const Results& results) {
  std::map<std::tuple<std::string, std::string, std::string, std::int64_t>, std::vector<std::int64_t>> asked;
  for (const LmCell& cell : results.lm) {
    if (cell.scores.empty()) continue;
    std::vector<std::int64_t> ids;
    for (const schema::DocumentScore& score : cell.scores) ids.push_back(score.id);
    const auto [known, fresh] =
        asked.try_emplace({data_of(results.runs[cell.run]), cell.corpus, cell.protocol, cell.length}, ids);
    if (!fresh && known->second != ids) return false;
  }
  return true;
}

std::string documents_sentence(const Results& results) {
  double fewest = 1e300, most = 0;
  std::set<std::string> corpora, data;
  for (const LmCell& cell : results.lm) {
    if (cell.status != "ok" && cell.status != "overflow") continue;
    fewest = std::min(fewest, cell.documents);
    most = std::max(most, cell.documents);
    if (!cell.corpus.empty()) corpora.insert(cell.corpus);
    data.insert(data_of(results.runs[cell.run]));
  }
  if (most == 0) return "";
  const std::string count = fewest == most ? support::with_commas(std::llround(most))
                                           : cat(support::with_commas(std::llround(fewest)), " to ",
                                                 support::with_commas(std::llround(most)));
  return cat("n = ", count, " documents", corpora.size() == 1 ? cat(" (", *corpora.begin(), " split)") : "",
             !same_documents(results) ? ", not the same for every model"
             : data.size() > 1        ? ", the same for every model of one text"
                                      : ", the same for every model",
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
  return cat(join_as_sentence(protocols), " ",
             join_as_sentence({documents_sentence(results), seeds_sentence(results), training_sentence(results)}));
}

Cell score_cell(const ArmScore& score) {
  if (!score.ok()) return Cell::missing(mark_of(score.status), score.reason);
  Cell cell = Cell::of_number(std::exp(statistics::summarise_seeds(score.nll).mean));
  const auto level = level_of(score);
  cell.few = level ? level->few() : score.documents < statistics::kFewItems;
  if (level && level->knows_seeds()) {
    // Of the logarithm, and so not symmetric.
    cell.interval = statistics::Interval{std::exp(level->interval.low), std::exp(level->interval.high)};
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
      panel.title = has_variants(results) ? cat(variant, " · ", protocol) : protocol;
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
    // Models that were not evaluated, such as the trunks of trained branches, and protocols without results have no
    // panel.
    std::erase_if(panels, [](const Panel& panel) { return panel.series.empty(); });
    std::move(panels.begin(), panels.end(), std::back_inserter(figure.panels));
  }
  const std::string leading = headline_protocol(results);
  const auto lead = std::find_if(figure.panels.begin(), figure.panels.end(),
                                 [&](const Panel& panel) { return panel.title.ends_with(leading); });
  if (lead != figure.panels.end()) figure.lead = static_cast<std::size_t>(lead - figure.panels.begin());
  // A model that explodes would flatten all others: the axis ends at 30 times the lowest value.
  if (highest > 30 * lowest) figure.y.high = 30 * lowest;
  figure.caption = cat(caption(results), " Thick: mean over seeds of the log-likelihood; thin: single seeds",
                       banded ? "; band: 95 % t interval over seeds for these documents, from three on" : "",
                       std::isnan(figure.y.high) ? "." : "; arrow: a curve that leaves the plot, with its last value.");
  figure.description = cat("Line chart of perplexity against context length for ",
                           support::join(results.encodings, ", "), ". The values are in the table that follows.");
  return figure;
}

/// The variants of one encoding in one panel, under the protocol of the sentences.
Figure variants_figure(const Results& results) {
  const std::string protocol = headline_protocol(results);
  Figure figure{.id = "perplexity_variants",
                .title = cat("Variants of one encoding, ", protocol),
                .x = {.title = "Context length, tokens", .scale = Scale::kLog2, .ticks = TickStyle::kCount},
                .y = {.title = "Perplexity, lower is better", .scale = Scale::kLog10},
                .columns = 3};
  double lowest = INFINITY, highest = 0;
  for (const std::string& encoding : results.encodings) {
    std::vector<const Arm*> arms;
    std::vector<std::string> names;
    for (const Arm* arm : readers(results)) {
      if (arm->encoding != encoding) continue;
      arms.push_back(arm);
      names.push_back(arm->variant);
    }
    if (arms.size() < 2) continue;
    names = distinguishing_parts(names);
    Palette palette;
    palette.tell_apart(names);
    Panel panel{.title = encoding, .encoding = encoding};
    for (std::size_t a = 0; a < arms.size(); ++a) {
      std::vector<double> xs;
      std::vector<std::vector<double>> values(arms[a]->runs.size());
      ArmScore score;
      for (const std::int64_t length : lengths_of(results, protocol)) {
        ArmScore own = arm_score(results, *arms[a], protocol, length);
        if (!own.ok()) continue;
        xs.push_back(static_cast<double>(length));
        for (std::size_t s = 0; s < own.nll.size(); ++s) {
          values[s].push_back(own.nll[s]);
          lowest = std::min(lowest, std::exp(own.nll[s]));
          highest = std::max(highest, std::exp(own.nll[s]));
        }
        score = std::move(own);
      }
      if (!xs.empty())
        add_arm_series(panel, Arm{names[a], arms[a]->variant, {}}, palette.look(names[a]), score.seeds, xs, values,
                       [](double nll) { return std::exp(nll); });
    }
    if (panel.series.size() > 1) figure.panels.push_back(std::move(panel));
  }
  for (std::size_t p = 1; p < figure.panels.size(); ++p) {  // the fullest one leads where some lines become grey
    if (names_of(figure.panels[p]).size() > names_of(figure.panels[figure.lead]).size()) figure.lead = p;
  }
  if (highest > 30 * lowest) figure.y.high = 30 * lowest;
  figure.caption =
      cat("Each panel has the variants of one encoding. Thick: mean over seeds of the log-likelihood; thin: single "
          "seeds; band: 95 % t interval over seeds for "
          "these documents, from three on. ",
          training_sentence(results));
  figure.description =
      "Line charts of perplexity against context length, one for each encoding. The values are in the table that "
      "follows.";
  return figure;
}

Table perplexity_table(const Results& results) {
  Table table{.id = "perplexity_length", .title = "Perplexity against context length"};
  table.columns = arm_columns(results);
  table.columns.push_back({.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount});
  const std::vector<LmPlace> places = lm_places(results);
  bool contexts = false;  // are known
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
  std::size_t fewest_seeds = 0, fewest_of_bold = 0;
  for (const std::string& variant : results.variants) {
    const std::size_t first = table.rows.size();
    std::vector<std::vector<ArmScore>> scores;
    for (const Arm* each : readers(results)) {
      const Arm& arm = *each;
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
      const auto add = [&](std::size_t& fewest) { fewest = fewest == 0 ? seeds : std::min(fewest, seeds); };
      if (seeds > 0) add(fewest_seeds);
      if (std::any_of(cells.begin(), cells.end(), [](const Cell* cell) { return cell->best; })) add(fewest_of_bold);
    }
  }
  if (fewest_of_bold > 0) fewest_seeds = fewest_of_bold;
  table.caption =
      cat(caption(results), " ",
          join_as_sentence(
              {contexts ? "In brackets below a length: mean number of tokens before a scored one" : "",
               "mean over seeds of the log-likelihood, from three seeds on with its 95 % interval over seeds and "
               "documents; models "
               "of one text share the documents, so compare them by their paired differences",
               "two seeds are both printed", bold_sentence(results, fewest_seeds).substr(fewest_seeds > 0 ? 1 : 0)}));
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
  for (const Arm* each : readers(results)) {
    const Arm& arm = *each;
    bool first = !table.rows.empty();
    for (const std::size_t run : arm.runs) {
      Row row{.cells = arm_cells(results, arm), .rule_above = first};
      first = false;
      row.cells.push_back(Cell::of_text(results.runs[run].seed));
      const Arm alone{arm.encoding, arm.variant, {run}};
      for (const auto& [protocol, length] : places)
        row.cells.push_back(score_cell(arm_score(results, alone, protocol, length)));
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
    table.columns.push_back(
        {.id = cat("bpb_", length), .header = length_header(results, length), .direction = Direction::kLowerIsBetter});
  }
  bool any = false;
  for (const Arm* each : readers(results)) {
    const Arm& arm = *each;
    Row row{.cells = arm_cells(results, arm)};
    for (const std::int64_t length : lengths) {
      const ArmScore score = arm_score(results, arm, protocol, length);
      any = any || std::isfinite(score.bpb);
      row.cells.push_back(score.ok() && std::isfinite(score.bpb)
                              ? Cell::of_number(score.bpb)
                              : Cell::missing(mark_of(score.ok() ? "not_measured" : score.status),
                                              score.ok() ? reason_of("not_measured") : score.reason));
    }
    table.rows.push_back(std::move(row));
  }
  if (!any) table.rows.clear();
  table.caption = join_as_sentence({"Mean over seeds", documents_sentence(results), training_sentence(results)});
  return table;
}

/// "57", "4.1", "0.8", "0.03".
std::string percent_in_words(double percent) {
  const double size = std::fabs(percent);
  return fmt::format("{:.{}f}", percent, size >= 9.95 ? 0 : size >= 0.095 ? 1 : 2);
}

/// The arms of a variant at one length, best first, and those without a number.
struct Ranking {
  struct RankedArm {
    const Arm* arm;
    ArmScore score;
    double mean;
    std::string name() const { return arm->encoding; }
    std::string perplexity() const { return format_number(std::exp(mean), NumberStyle::kPerplexity); }
  };
  std::vector<RankedArm> arms;
  std::vector<std::string> absent;
};

Ranking rank(const Results& results, const std::string& variant, const std::string& protocol, std::int64_t length) {
  Ranking ranking;
  for (const Arm* each : readers(results)) {
    const Arm& arm = *each;
    if (arm.variant != variant) continue;
    ArmScore score = arm_score(results, arm, protocol, length);
    if (score.ok()) {
      const double mean = statistics::summarise_seeds(score.nll).mean;
      ranking.arms.push_back({&arm, std::move(score), mean});
    } else {
      ranking.absent.push_back(cat(arm.encoding, " ", mark_of(score.status)));
    }
  }
  std::stable_sort(ranking.arms.begin(), ranking.arms.end(),
                   [](const auto& a, const auto& b) { return a.mean < b.mean; });
  return ranking;
}

/// "57 % below none (significant)", "next none 8.01 (not shown: two seeds)": how far the best is below the next, as a
/// share of perplexity where that is shown.
std::string lead_in_words(const statistics::TwoLevel& difference, double p, const Ranking::RankedArm& next) {
  const std::string verdict = verdict_words(difference, p);
  if (verdict != "significant") {
    const std::string why = difference.knows_seeds() ? cat(": ", p_in_words(p)) : "";
    return cat("next ", next.name(), " ", next.perplexity(), " (", verdict, why, ")");
  }
  return cat(percent_in_words(-100 * std::expm1(difference.estimate)), " % below ", next.name(), " (", verdict, ")");
}

struct Findings {
  std::vector<std::string> sentences, lines;
};

/// A sentence for the page and a line for the terminal, with one verdict.
void add_finding(const Results& results, const std::string& variant, std::int64_t length, bool with_line,
                 Findings& findings) {
  const std::string protocol = headline_protocol(results);
  const Ranking ranking = rank(results, variant, protocol, length);
  if (ranking.arms.size() < 2) return;
  const Ranking::RankedArm &best = ranking.arms[0], &next = ranking.arms[1], &last = ranking.arms.back();
  auto difference = compare(best.score, next.score);
  // Means may be over more seeds than the pair has: then the pair may have the other order.
  const bool reversed = difference && difference->estimate > 0;
  if (reversed) difference.reset();
  const char* caveat = " (not shown: on the seeds that both have, it is lower)";
  const double p = difference ? adjusted_p(*difference, pairs_of_arms(ranking.arms.size())) : 1;
  const std::vector<const Arm*> arms = readers(results);
  const bool several = std::any_of(arms.begin(), arms.end(), [&](const Arm* arm) { return arm->variant != variant; });
  const std::string front = several && !variant.empty() ? variant + ": " : "";
  std::string text =
      cat(front, "at ", tokens_header(results, length), ", ", protocol, ", ", best.name(),
          " has the lowest perplexity, ", best.perplexity(), "; next ", next.name(), " with ", next.perplexity());
  if (difference) text += cat(" (", certainty(*difference, p), ")");
  if (reversed) text += caveat;
  if (ranking.arms.size() > 2) text += cat("; highest ", last.name(), " with ", last.perplexity());
  if (!ranking.absent.empty()) text += cat("; ", support::join(ranking.absent, ", "));
  findings.sentences.push_back(text + ".");
  if (!with_line) return;
  std::string line = cat(front, "perplexity at ", length_header(results, length), ", ", protocol, ": ", best.name(),
                         " ", best.perplexity(), ", ");
  line += difference ? lead_in_words(*difference, p, next)
                     : cat("next ", next.name(), " ", next.perplexity(), reversed ? caveat : "");
  if (ranking.arms.size() > 2) append_if_fits(line, cat("; ", last.name(), " ", last.perplexity()));
  if (!ranking.absent.empty()) append_if_fits(line, cat("; ", support::join(ranking.absent, ", ")));
  findings.lines.push_back(std::move(line));
}

// The comparison that most readers came for, in words, with its uncertainty.
Findings findings_of(const Results& results) {
  Findings findings;
  const auto lengths = lengths_of(results, headline_protocol(results));
  for (const std::string& variant : results.variants) {
    // Where models were trained, and the longest.
    std::vector<std::int64_t> asked;
    for (const std::int64_t length : train_lengths_of(results, variant)) {
      if (std::find(lengths.begin(), lengths.end(), length) != lengths.end()) asked.push_back(length);
    }
    if (asked.empty() || lengths.back() != asked.back()) asked.push_back(lengths.back());
    // After verdicts of claims there is room for one line, at the longest length.
    for (const std::int64_t length : asked)
      add_finding(results, variant, length, results.claims.empty() || length == asked.back(), findings);
  }
  return findings;
}

}  // namespace

Section perplexity_section(const Results& results, Palette& palette) {
  Section section{.id = "perplexity", .title = "Perplexity against context length"};
  if (results.lm.empty()) return section;
  if (Figure figure = perplexity_figure(results, palette); !figure.panels.empty())
    section.figures.push_back(std::move(figure));
  if (Figure figure = variants_figure(results); !figure.panels.empty()) section.figures.push_back(std::move(figure));
  section.tables.push_back(perplexity_table(results));
  const bool repeated =
      std::any_of(results.arms.begin(), results.arms.end(), [](const Arm& arm) { return arm.runs.size() > 1; });
  if (repeated) section.tables.push_back(perplexity_seeds_table(results));
  if (Table bits = bits_table(results); !bits.rows.empty()) section.tables.push_back(std::move(bits));
  Findings findings = findings_of(results);
  section.findings = std::move(findings.sentences);
  section.lines = std::move(findings.lines);
  if (std::none_of(results.lm.begin(), results.lm.end(), [](const LmCell& cell) { return cell.status == "ok"; }))
    section.lines.push_back(cat("no perplexity was measured: ", reason_of(results.lm.front().status)));
  return section;
}

}  // namespace pe::report
