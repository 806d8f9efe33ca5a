// The share of an ideal reader's gain from more context that each encoding reaches.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/results/comparison.h"
#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

/// A smaller share of the ideal gain counts as none, in words.
constexpr double kUses = 0.1;

/// Bytes per token, over all scored documents of the text of a run.
double bytes_per_token(const Results& results, const Run& run) {
  double bytes = 0, tokens = 0;
  for (const LmCell& cell : results.lm) {
    if (data_of(results.runs[cell.run]) != data_of(run)) continue;
    for (const schema::DocumentScore& score : cell.scores) {
      bytes += static_cast<double>(score.bytes);
      tokens += static_cast<double>(score.tokens);
    }
  }
  return tokens > 0 ? bytes / tokens : NAN;
}

/// Tokens before a scored one, mean over seeds; the length where the table does not say it.
double context_of(const ArmScore& score, std::int64_t length) {
  double sum = 0, seeds = 0;
  for (const LmCell* cell : score.cells) {
    if (cell == nullptr || !std::isfinite(cell->context)) return static_cast<double>(length);
    sum += cell->context;
    ++seeds;
  }
  return seeds > 0 ? sum / seeds : static_cast<double>(length);
}

/// Nats per token that an ideal reader of text with `length` tokens before it gains from `more` instead of `few` tokens
/// of context; NaN where the table does not reach so far. It is the text of `run`.
double ideal_gain(const Results& results, const Run& run, std::int64_t length, double few, double more) {
  const double per_token = bytes_per_token(results, run);
  const double from = few * per_token, to = more * per_token;
  double position = INFINITY;  // text that has as much before it
  for (const IdealLoss& loss : results.ideal) {
    if (labels_agree(loss.labels, run.labels) && loss.position >= static_cast<double>(length) * per_token)
      position = std::min(position, loss.position);
  }
  std::map<double, double> losses;  // context → nats per byte
  for (const IdealLoss& loss : results.ideal) {
    if (labels_agree(loss.labels, run.labels) && loss.position == position) losses[loss.context] = loss.nats;
  }
  const auto at = [&](double context) {  // a straight line in the logarithm of the context
    const auto above = losses.lower_bound(context);
    if (above == losses.end() || (above == losses.begin() && above->first > context)) return std::nan("");
    if (above->first == context) return above->second;
    const auto below = std::prev(above);
    const double share = std::log(context / below->first) / std::log(above->first / below->first);
    return below->second + share * (above->second - below->second);
  };
  return (at(from) - at(to)) * per_token;
}

const char* word_of(const statistics::TwoLevel& loss, double ideal) {
  // `loss` is that at the longer context less that at the training length.
  if (!loss.knows_seeds()) return "not shown: fewer than three seeds";
  if (loss.interval.low > 0) return "loses by it";
  if (-loss.interval.high > kUses * ideal) return "uses its context";
  if (-loss.interval.low < kUses * ideal) return "flat: uses none of it";
  return "not shown";
}

struct ContextGain {
  const Arm* arm;
  std::int64_t length;
  double ideal;
  statistics::TwoLevel loss;
};

std::vector<ContextGain> uses_of(const Results& results, const std::string& protocol) {
  std::vector<ContextGain> uses;
  for (const Arm& arm : results.arms) {
    const std::int64_t trained = train_length_of(results, arm);
    const ArmScore base = arm_score(results, arm, protocol, trained);
    for (const std::int64_t length : lengths_of(results, protocol)) {
      if (trained == 0 || length <= trained) continue;
      const ArmScore score = arm_score(results, arm, protocol, length);
      const double ideal = ideal_gain(results, results.runs[arm.runs.front()], length, context_of(base, trained),
                                      context_of(score, length));
      const auto loss = compare(score, base);
      if (loss && ideal > 0) uses.push_back({&arm, length, ideal, *loss});
    }
  }
  return uses;
}

Cell gain_cell(const ContextGain& used) {
  Cell gain = Cell::of_number(-used.loss.estimate);
  gain.interval = statistics::Interval{-used.loss.interval.high, -used.loss.interval.low};
  return gain;
}

Column gain_column() {
  return {.id = "gain",
          .header = "gain, nats/token",
          .style = NumberStyle::kSignedNats,
          .direction = Direction::kHigherIsBetter};
}

Table used_table(const Results& results, const std::vector<ContextGain>& uses, const std::string& protocol) {
  Table table{.id = "context_used", .title = "How much of a longer context is used"};
  table.columns = arm_columns(results);
  table.columns.insert(table.columns.end(), {{.id = "length", .header = "Length", .style = NumberStyle::kCount},
                                             gain_column(),
                                             {.id = "ideal", .header = "ideal gain", .style = NumberStyle::kNats},
                                             {.id = "share",
                                              .header = "used, %",
                                              .style = NumberStyle::kSignedPercent,
                                              .direction = Direction::kHigherIsBetter},
                                             {.id = "word", .header = "In words", .text = true},
                                             {.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount}});
  const Arm* last = nullptr;
  for (const ContextGain& used : uses) {
    Row row{.cells = arm_cells(results, *used.arm), .rule_above = last && last != used.arm};
    last = used.arm;
    const Cell gain = gain_cell(used);
    Cell share = Cell::of_number(-used.loss.estimate / used.ideal);
    share.interval = statistics::Interval{gain.interval->low / used.ideal, gain.interval->high / used.ideal};
    row.cells.insert(
        row.cells.end(),
        {Cell::of_number(static_cast<double>(used.length)), gain, Cell::of_number(used.ideal), share,
         Cell::of_text(word_of(used.loss, used.ideal)), Cell::of_number(static_cast<double>(used.loss.seeds))});
    table.rows.push_back(std::move(row));
  }
  table.caption =
      cat("Gain: NLL at the training length less that at the length (", protocol,
          "), paired by seed and document, with its 95 % interval over seeds and documents, below three seeds over "
          "documents alone. Ideal gain: "
          "at least what a reader gains who knows how the text was generated, with as many tokens before a scored one "
          "as the models have on average. ",
          training_sentence(results));
  return table;
}

Figure used_figure(const Results& results, const std::vector<ContextGain>& uses, const std::string& protocol,
                   Palette& palette) {
  Figure figure{.id = "context_used",
                .title = cat("Share of the ideal gain from a longer context, ", protocol),
                .kind = Figure::Kind::kForest,
                .x = {.title = "Used of the ideal gain, more is better", .ticks = TickStyle::kPercent}};
  std::set<std::int64_t> lengths;
  std::vector<const Arm*> rows;
  for (auto used = uses.rbegin(); used != uses.rend(); ++used) {
    lengths.insert(used->length);
    if (std::find(rows.begin(), rows.end(), used->arm) == rows.end()) rows.push_back(used->arm);
  }
  figure.y_names = row_names(results, rows);
  for (const std::int64_t length : lengths) {
    Panel panel{.title = tokens_header(results, length), .x_low = -1.0, .x_high = 1.05};
    for (const ContextGain& used : uses) {
      if (used.length != length) continue;
      const double row = static_cast<double>(std::find(rows.begin(), rows.end(), used.arm) - rows.begin()),
                   share = -used.loss.estimate / used.ideal;
      if (share < -1 || share > panel.x_high) {
        panel.flags.push_back(
            {share, row, cat("off the axis: ", format_cell(gain_cell(used), gain_column()), " nats"), ""});
        continue;
      }
      Series series{.name = arm_name(*used.arm, has_variants(results)),
                    .look = palette.look(used.arm->encoding),
                    .labelled = false};
      series.points.push_back({.x = share,
                               .y = row,
                               .low = -used.loss.interval.high / used.ideal,
                               .high = -used.loss.interval.low / used.ideal,
                               .n = static_cast<double>(used.loss.seeds)});
      panel.series.push_back(std::move(series));
    }
    panel.rules = {{true, 0, "flat"}, {true, 1, "ideal"}};
    figure.panels.push_back(std::move(panel));
  }
  figure.caption =
      cat("An encoding's gain from a longer context, divided by an ideal reader's gain; line: 95 % interval over seeds "
          "and documents, below three seeds over documents alone. At 0 the curve is flat and the context unused. ",
          training_sentence(results));
  figure.description = "Forest plot of the share of the ideal gain; the values are in the table.";
  return figure;
}

}  // namespace

Section context_used_section(const Results& results, Palette& palette) {
  Section section{.id = "perplexity", .title = "Perplexity against context length"};
  if (results.ideal.empty() || results.lm.empty()) return section;
  const std::string protocol = headline_protocol(results);
  const std::vector<ContextGain> uses = uses_of(results, protocol);
  if (uses.empty()) return section;
  section.tables.push_back(used_table(results, uses, protocol));
  section.figures.push_back(used_figure(results, uses, protocol, palette));
  return section;
}

}  // namespace pe::report
