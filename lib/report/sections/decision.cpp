// Which encoding? How far each reaches and how sure that is, what it costs, and quality against cost.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/results/comparison.h"
#include "report/sections/section.h"
#include "schema/models.h"
#include "schema/status.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

const double kTolerance = std::log(1.05);  // of perplexity over that at the training length
constexpr double kTallest = 2;             // nats of the figure: a model that explodes would flatten all others

/// The largest tested length at which an arm keeps its loss, and the lengths that noise does not exclude.
struct Reach {
  std::int64_t trained = 0, length = 0, low = 0, high = 0, longest = 0;
};

std::optional<Reach> reach_of(const Results& results, const Arm& arm, const std::string& protocol) {
  Reach reach{.trained = train_length_of(results, arm)};
  const ArmScore base = arm_score(results, arm, protocol, reach.trained);
  if (reach.trained == 0 || !base.ok()) return std::nullopt;
  reach.length = reach.low = reach.high = reach.longest = reach.trained;
  bool keeps = true, surely = true, perhaps = true;
  for (const std::int64_t length : lengths_of(results, protocol)) {
    if (length <= reach.trained) continue;
    const ArmScore score = arm_score(results, arm, protocol, length);
    // Only the model decides: a length that the texts do not reach is not a failure.
    if (!score.ok() && score.status != schema::status::kPositions && score.status != schema::status::kOverflow)
      continue;
    const auto loss = compare(score, base);  // nothing where the model has no positions or no number
    if (score.ok() && !loss) continue;       // too few common documents
    reach.longest = length;
    keeps = keeps && loss && loss->estimate <= kTolerance;
    surely = surely && loss && loss->interval.high <= kTolerance;
    perhaps = perhaps && loss && loss->interval.low <= kTolerance;
    if (keeps) reach.length = length;
    if (surely) reach.low = length;
    if (perhaps) reach.high = length;
  }
  return reach.longest > reach.trained ? std::optional(reach) : std::nullopt;
}

std::string class_of(const Reach& reach) {
  const double times = static_cast<double>(reach.length) / static_cast<double>(reach.trained);
  const char* word = times < 2 ? "none beyond training" : times < 4 ? "limited" : times < 8 ? "moderate" : "large";
  return cat(word, reach.length == reach.longest ? " (as far as was tested)" : "");
}

/// Milliseconds of an arm, with the quartiles of their repetitions.
struct Time {
  std::vector<double> median, low, high;
  Cell cell() const {
    if (median.empty()) return Cell::missing("–", "not measured (pe-measure)");
    Cell cell = Cell::of_number(mean_of_finite(median));
    if (cell.number) cell.interval = statistics::Interval{mean_of_finite(low), mean_of_finite(high)};
    return cell;
  }
};

struct Costs {
  std::int64_t length = 0;  ///< of the texts: the longest that was measured
  std::string setting;      ///< of the times, in words; empty: none were measured
  std::map<std::pair<std::size_t, std::string>, Time> times;  ///< arm, component
  std::map<std::size_t, double> parameters;                   ///< of the encoding, by arm
  Cell time(std::size_t arm, const char* component) const {
    const auto found = times.find({arm, component});
    return (found == times.end() ? Time{} : found->second).cell();
  }
};

Costs costs_of(const Results& results) {
  Costs costs;
  const auto settings = cost_settings(results, "best");
  if (!settings.empty()) costs.setting = cat(settings.front().text(), other_settings_note(settings));
  const auto counts = [&](const schema::Cost& row) {
    return row.path == "best" && row.status == "ok" && setting_of(row) == settings.front();
  };
  each_row<schema::Cost>(results, [&](std::size_t, const schema::Cost& row) {
    if (counts(row)) costs.length = std::max(costs.length, row.length);
  });
  each_row<schema::Cost>(results, [&](std::size_t run, const schema::Cost& row) {
    if (!counts(row) || row.length != costs.length) return;
    Time& time = costs.times[{arm_of(results, run), row.component}];
    time.median.push_back(row.median_ms);
    time.low.push_back(row.p25_ms);
    time.high.push_back(row.p75_ms);
  });
  each_row<schema::Parameters>(results, [&](std::size_t run, const schema::Parameters& row) {
    costs.parameters[arm_of(results, run)] = row.parameters;
  });
  return costs;
}

Cell parameters_cell(const Results& results, const Costs& costs, std::size_t arm) {
  if (const auto own = costs.parameters.find(arm); own != costs.parameters.end()) return Cell::of_number(own->second);
  std::set<double> held;  // by all trainings of the encoding; a size or a variant may have another number
  for (const Curve& curve : results.curves) {
    const auto count = curve.run.facts.find("encoding_parameters");
    if (curve.run.encoding == results.arms[arm].encoding && count != curve.run.facts.end() && count->is_number())
      held.insert(count->get<double>());
  }
  if (held.size() == 1) return Cell::of_number(*held.begin());
  if (held.size() > 1) return Cell::missing("–", "variants of the encoding differ, and pe-measure did not count them");
  return Cell::missing("–", "neither pe-measure nor a training log says it");
}

Cell loss_cell(const ArmScore& score) {
  if (!score.ok()) return Cell::missing(mark_of(score.status), score.reason);
  Cell cell = Cell::of_number(statistics::summarise_seeds(score.nll).mean);
  const auto level = level_of(score);
  cell.few = level && level->few();
  if (level && level->knows_seeds())
    cell.interval = level->interval;
  else if (score.nll.size() == 2)
    cell.parts = score.nll;
  return cell;
}

Row decision_row(const Results& results, const Costs& costs, std::size_t arm, const std::string& protocol,
                 std::int64_t longest, bool measured) {
  const Arm& own = results.arms[arm];
  Row row{.cells = arm_cells(results, own)};
  if (const auto reach = reach_of(results, own, protocol)) {
    row.cells.push_back(Cell::of_text(class_of(*reach)));
    Cell cell = Cell::of_number(static_cast<double>(reach->length));
    cell.interval = statistics::Interval{static_cast<double>(reach->low), static_cast<double>(reach->high)};
    row.cells.push_back(std::move(cell));
  } else {
    row.cells.push_back(Cell::of_text("not measured"));
    row.cells.push_back(Cell::missing("–", "it needs a number at the training length, and one beyond it"));
  }
  row.cells.push_back(loss_cell(arm_score(results, own, protocol, longest)));
  if (measured) {
    row.cells.push_back(costs.time(arm, "forward"));
    row.cells.push_back(costs.time(arm, "training_step"));
  }
  row.cells.push_back(parameters_cell(results, costs, arm));
  row.cells.push_back(Cell::of_number(static_cast<double>(own.runs.size())));
  return row;
}

Table decision_table(const Results& results, const Costs& costs, const std::vector<std::size_t>& arms,
                     const std::string& protocol, std::int64_t longest) {
  Table table{.id = "decision", .title = "Which encoding?"};
  table.columns = arm_columns(results);
  table.columns.insert(table.columns.end(), {{.id = "class", .header = "Length generalisation", .text = true},
                                             {.id = "usable",
                                              .header = "usable context, tokens",
                                              .style = NumberStyle::kCount,
                                              .direction = Direction::kHigherIsBetter},
                                             {.id = "nll",
                                              .header = cat("nats/token at ", length_header(results, longest)),
                                              .style = NumberStyle::kNats,
                                              .direction = Direction::kLowerIsBetter}});
  const bool measured = !costs.times.empty();
  if (measured) {
    const std::string group = cat("ms, ", support::with_commas(costs.length), " tokens");
    table.columns.push_back({.id = "forward",
                             .header = "evaluation",
                             .group = group,
                             .style = NumberStyle::kPerplexity,
                             .direction = Direction::kLowerIsBetter});
    table.columns.push_back({.id = "step",
                             .header = "training step",
                             .group = group,
                             .style = NumberStyle::kPerplexity,
                             .direction = Direction::kLowerIsBetter});
  }
  table.columns.push_back({.id = "parameters", .header = "Its parameters", .style = NumberStyle::kCount});
  table.columns.push_back({.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount});
  for (const std::size_t arm : arms)
    table.rows.push_back(decision_row(results, costs, arm, protocol, longest, measured));
  std::size_t fewest = SIZE_MAX, most = 0;
  for (const std::size_t arm : arms) {
    fewest = std::min(fewest, results.arms[arm].runs.size());
    most = std::max(most, results.arms[arm].runs.size());
  }
  table.caption =
      cat(join_as_sentence({cat("usable context: the largest tested length up to which perplexity (", protocol,
                                ") stays within 5 % of that at the training length, in brackets the lengths that "
                                "noise does not exclude"),
                            "below 2 times the training length it is none beyond training, below 4 limited, below 8 "
                            "moderate, else large"}),
          " ",
          join_as_sentence(
              {fewest >= statistics::kSeedsForNoise ? "the noise covers seeds and documents, paired"
               : most >= statistics::kSeedsForNoise
                   ? "the noise covers seeds and documents from three seeds on, else documents alone"
                   : cat("with ", seeds_in_words(fewest), " the noise covers documents alone"),
               measured ? cat("times: the cheapest exact route, quartiles in brackets (", costs.setting, ")") : ""}),
          " ", training_sentence(results));
  return table;
}

/// Loss against time, one panel for evaluation and one for training.
Figure quality_figure(const Results& results, const Costs& costs, const std::vector<std::size_t>& arms,
                      const std::string& protocol, std::int64_t longest, Palette& palette) {
  Figure figure{
      .id = "quality_cost",
      .title = cat("Loss at ", tokens_header(results, longest), " against time"),
      .x = {.title = cat("Milliseconds for ", support::with_commas(costs.length), " tokens, fewer is better")},
      .y = {.title = "Nats per token, lower is better"}};
  double lowest = INFINITY, highest = -INFINITY;
  for (const auto& [component, title] : {std::pair{"forward", "evaluation"}, {"training_step", "training step"}}) {
    Panel panel{.title = title};
    for (const std::size_t arm : arms) {
      const Cell time = costs.time(arm, component),
                 loss = loss_cell(arm_score(results, results.arms[arm], protocol, longest));
      if (!time.number || !loss.number) continue;
      lowest = std::min(lowest, *loss.number);
      highest = std::max(highest, *loss.number);
      const Look& look = palette.look(results.arms[arm].encoding);
      const std::string name = arm_name(results.arms[arm], has_variants(results));
      Series across{.name = name,
                    .role = Series::Role::kLine,
                    .look = look,
                    .labelled = false,
                    .variant = results.arms[arm].variant};
      across.points = {{.x = time.interval->low, .y = *loss.number}, {.x = time.interval->high, .y = *loss.number}};
      Series main{.name = name, .look = look, .whiskers = true, .variant = results.arms[arm].variant};
      main.points.push_back(
          {.x = *time.number, .y = *loss.number, .n = static_cast<double>(results.arms[arm].runs.size())});
      if (loss.interval) {
        main.points[0].low = loss.interval->low;
        main.points[0].high = loss.interval->high;
      }
      panel.series.push_back(std::move(across));
      panel.series.push_back(std::move(main));
    }
    if (panel.series.size() > 2) figure.panels.push_back(std::move(panel));  // one model alone is no comparison
  }
  if (highest > lowest + kTallest) figure.y.high = lowest + kTallest;
  figure.caption =
      cat(join_as_sentence({"lower left is better",
                            "upright: 95 % interval over seeds and documents, from three seeds on, which is wider "
                            "than the interval of a difference of two models, "
                            "since they share the documents",
                            "across: quartiles of the time", costs.setting}),
          " ", training_sentence(results));
  figure.description = "Scatter plot of loss against time, a point for each model; the values are in the table.";
  return figure;
}

}  // namespace

Section decision_section(const Results& results, Palette& palette) {
  Section section{.id = "decision", .title = "Which encoding?"};
  const std::string protocol = headline_protocol(results);
  const auto lengths = lengths_of(results, protocol);
  std::set<std::size_t> runs;
  for (const LmCell& cell : results.lm) runs.insert(cell.run);
  std::vector<std::size_t> arms;
  for (const Arm* arm : arms_with(results, runs)) arms.push_back(static_cast<std::size_t>(arm - results.arms.data()));
  if (lengths.size() < 2 || arms.size() < 2) return section;
  const Costs costs = costs_of(results);
  section.tables.push_back(decision_table(results, costs, arms, protocol, lengths.back()));
  if (Figure figure = quality_figure(results, costs, arms, protocol, lengths.back(), palette); !figure.panels.empty())
    section.figures.push_back(std::move(figure));
  return section;
}

}  // namespace pe::report
