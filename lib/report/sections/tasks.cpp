// Synthetic tasks by length. Exact match leads, as in the tasks' sources. A language model that is asked to copy is
// scored by token accuracy, since it hardly ever copies a whole context.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/sections/section.h"
#include "schema/algorithmic.h"
#include "schema/status.h"
#include "statistics/two_level.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

struct TaskCells {
  std::vector<double> exact, tokens, nll;
  double items = 0;
  std::string status = "ok";
};

TaskCells task_cells(const Results& results, const std::string& task, const Arm& arm, std::int64_t length) {
  TaskCells cells;
  for (const std::size_t run : arm.runs) {
    const TaskCell* found = results.find_task(run, task, length);
    if (!found || found->status != "ok") {
      cells.status = found ? found->status : "not_measured";
      continue;
    }
    cells.exact.push_back(found->exact);
    cells.tokens.push_back(found->token_accuracy);
    cells.nll.push_back(found->nll);
    cells.items = std::max(cells.items, found->n);
  }
  return cells;
}

Cell level_cell(const TaskCells& cells, const std::vector<double>& values, bool is_share) {
  if (cells.status != "ok") return Cell::missing(mark_of(cells.status), reason_of(cells.status));
  Cell cell = is_share ? share_cell(values) : mean_cell(values);
  cell.few = cells.items < statistics::kFewItems;
  return cell;
}

/// How far a task is solved, of one run: rows of algo_length. The longest of training is in the task's own unit.
struct Reach {
  double trained = NAN;
  std::map<std::string, double> measures;
};

/// Measures of the largest solved length, which a model may not have.
bool is_reach(const std::string& measure) { return measure == "len90" || measure == "ext_ratio"; }

std::map<std::size_t, Reach> reach_of(const Results& results, const std::string& task) {
  std::map<std::size_t, Reach> reach;
  each_row<schema::AlgoLength>(results, [&](std::size_t run, const schema::AlgoLength& row) {
    if (row.task != task) return;
    // A model that misses 90 % already at the shortest length reaches none.
    const bool none = row.status == schema::status::kNone && is_reach(row.measure);
    reach[run].measures[row.measure] = none ? 0 : row.value;
  });
  for (auto& [run, own] : reach) {
    if (const auto longest = own.measures.find("train_longest"); longest != own.measures.end())
      own.trained = longest->second;
    // Else the evaluation's config has it, or it follows from the ratio of the two.
    if (std::isnan(own.trained)) own.trained = results.runs[run].facts.value("task_longest", std::nan(""));
    if (std::isnan(own.trained) && own.measures.count("len90") && own.measures["ext_ratio"] > 0)
      own.trained = std::round(own.measures["len90"] / own.measures["ext_ratio"]);
  }
  return reach;
}

using Values = std::vector<double> TaskCells::*;

class TaskView {
 public:
  TaskView(const Results& results, std::string task)
      : results_(results), task_(std::move(task)), reach_(reach_of(results, task_)) {
    std::set<std::size_t> asked;
    for (const TaskCell& cell : results.tasks) {
      if (cell.task != task_) continue;
      lengths_.insert(cell.length);
      asked.insert(cell.run);
      if (cell.n > 0) items_.insert(cell.n);
      if (std::isfinite(cell.chance)) {
        chance_low_ = std::min(chance_low_, cell.chance);
        chance_high_ = std::max(chance_high_, cell.chance);
      }
    }
    for (const auto& [run, own] : reach_) {
      if (std::isfinite(own.trained)) trained_.insert(own.trained);
    }
    asked_ = arms_with(results, asked);
    algorithmic_ = !reach_.empty();
  }

  void add_to(Section& section, Palette& palette) const {
    if (Figure own = figure(palette); !own.panels.empty()) section.figures.push_back(std::move(own));
    section.tables.push_back(table());
    if (algorithmic_) section.tables.push_back(reach_table());
  }

 private:
  std::string header_of(std::int64_t length) const {
    // Multiples of the training length in the task's own unit; multiples of a window of tokens would differ.
    if (!algorithmic_) return length_header(results_, length);
    std::string text = support::with_commas(length);
    if (trained_.size() == 1 && static_cast<double>(length) != *trained_.begin()) {
      const double times = static_cast<double>(length) / *trained_.begin();
      text += cat(" (", format_number(times, NumberStyle::kPerplexity), "×)");
    } else if (trained_.size() == 1) {
      text += " (1×)";
    }
    return text;
  }

  std::string words() const {
    std::vector<std::string> parts;
    if (!items_.empty()) {
      const std::string fewest = support::with_commas(std::llround(*items_.begin())),
                        most = support::with_commas(std::llround(*items_.rbegin()));
      parts.push_back(cat("n = ", fewest, fewest == most ? "" : cat(" to ", most), " items per length",
                          fewest == most ? ", the same for every model" : ""));
    }
    if (chance_high_ > 0) {
      const std::string low = format_number(chance_low_, NumberStyle::kPercent),
                        high = format_number(chance_high_, NumberStyle::kPercent);
      parts.push_back(cat("chance level of token accuracy: ", low, low == high ? "" : cat(" to ", high), " %"));
    }
    parts.push_back(seeds_sentence(results_));
    if (!algorithmic_)
      parts.push_back(training_sentence(results_));
    else if (trained_.size() == 1)
      parts.push_back(cat("trained up to length ", format_number(*trained_.begin(), NumberStyle::kCount)));
    return cat(task_ == "copy" ? "Copy: distinct pieces, a newline, and the same pieces again; the second half is "
                                 "scored with the true pieces fed. "
                               : "",
               join_as_sentence(parts));
  }

  Figure figure(Palette& palette) const {
    Figure figure{
        .id = cat(task_, "_length"),
        .title = cat(algorithmic_ ? "Exact match and token accuracy" : "Token accuracy", " against length: ", task_),
        .x = {.title = algorithmic_ ? "Length of the task" : "Context length, tokens",
              .scale = algorithmic_ ? Scale::kLinear : Scale::kLog2},
        .y = {.title = "Share that is right, higher is better", .ticks = TickStyle::kPercent}};
    figure.y.low = 0;
    double highest = 0;
    // Claims use one or the other, so both are drawn where tasks have both.
    for (const std::string& variant : results_.variants) {
      if (algorithmic_) add_panel(figure, variant, "exact match", &TaskCells::exact, palette, highest);
      add_panel(figure, variant, "token accuracy", &TaskCells::tokens, palette, highest);
    }
    figure.y.high = highest > 0.5 || algorithmic_ ? 1.02 : std::max(0.01, 1.15 * highest);
    figure.caption =
        cat(words(), " ",
            join_as_sentence({"Line: median over seeds; small marks: single seeds, since they often learn a task or "
                              "do not; whiskers: Wilson's 95 % interval over items, of one seed",
                              highest > 0.5 || algorithmic_ ? "" : "the axis ends far below 100 %"}));
    figure.description = cat("Line chart of ", algorithmic_ ? "exact match" : "token accuracy", " against length for ",
                             support::join(results_.encodings, ", "), ". The values are in the table.");
    return figure;
  }

  void add_panel(Figure& figure, const std::string& variant, const std::string& measure, Values values,
                 Palette& palette, double& highest) const {
    Panel panel{.title = has_variants(results_) ? cat(variant, " · ", measure) : measure};
    if (!algorithmic_) {
      add_training_rules(panel, results_, variant);
    } else if (!trained_.empty() && !lengths_.empty()) {
      panel.shades.push_back({static_cast<double>(*lengths_.begin()), *trained_.rbegin(), "lengths of training"});
    }
    for (const Arm& arm : results_.arms) {
      if (arm.variant == variant) add_arm(panel, arm, values, palette, highest);
    }
    if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
  }

  void add_arm(Panel& panel, const Arm& arm, Values measure, Palette& palette, double& highest) const {
    std::vector<double> xs, items;
    std::vector<std::vector<double>> values(arm.runs.size());
    std::vector<std::string> seeds;
    for (const std::size_t run : arm.runs) seeds.push_back(results_.runs[run].seed);
    for (const std::int64_t length : lengths_) {
      const TaskCells cells = task_cells(results_, task_, arm, length);
      if (cells.status != "ok") continue;
      xs.push_back(static_cast<double>(length));
      items.push_back(cells.items);
      for (std::size_t s = 0; s < values.size(); ++s) {
        values[s].push_back((cells.*measure)[s]);
        highest = std::max(highest, std::isfinite(values[s].back()) ? values[s].back() : 0);
      }
    }
    if (xs.empty()) return;
    add_share_series(panel, arm, palette.look(arm.encoding), seeds, xs, values);
    if (values.size() > 1 || measure != &TaskCells::exact) return;
    Series& main = panel.series.back();  // tokens of an item are not separate trials
    main.whiskers = true;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      if (!(items[i] > 0)) continue;
      const statistics::Interval interval = statistics::wilson(main.points[i].y * items[i], items[i]);
      main.points[i].low = interval.low;
      main.points[i].high = interval.high;
    }
  }

  Table table() const {
    Table table{.id = task_, .title = cat("Synthetic task: ", task_)};
    table.columns = arm_columns(results_);
    struct Measure {
      const char* id;
      const char* group;
      NumberStyle style;
      Direction direction;
      std::vector<double> TaskCells::*values;
    };
    std::vector<Measure> measures = {
        {"accuracy", "token accuracy, %", NumberStyle::kPercent, Direction::kHigherIsBetter, &TaskCells::tokens},
        {"exact", "exact match, %", NumberStyle::kPercent, Direction::kHigherIsBetter, &TaskCells::exact},
        {"nll", "nats per token", NumberStyle::kNats, Direction::kLowerIsBetter, &TaskCells::nll}};
    if (algorithmic_) std::swap(measures[0], measures[1]);
    for (const Measure& measure : measures) {
      for (const std::int64_t length : lengths_) {
        table.columns.push_back({.id = cat(measure.id, "_", length),
                                 .header = header_of(length),
                                 .group = measure.group,
                                 .style = measure.style,
                                 .direction = measure.direction});
      }
    }
    std::string last = asked_.empty() ? "" : asked_.front()->variant;
    for (const Arm* each : asked_) {
      const Arm& arm = *each;
      Row row{.cells = arm_cells(results_, arm), .rule_above = arm.variant != last};
      last = arm.variant;
      for (const Measure& measure : measures) {
        for (const std::int64_t length : lengths_) {
          const TaskCells cells = task_cells(results_, task_, arm, length);
          row.cells.push_back(level_cell(cells, cells.*measure.values, measure.style == NumberStyle::kPercent));
        }
      }
      table.rows.push_back(std::move(row));
    }
    table.caption =
        cat(words(),
            " Exact match and token accuracy: median over seeds, and each seed in brackets; they often learn a task or "
            "do not, "
            "and no interval over seeds holds for that; nats: mean, ± 95 % t interval over seeds from three on.");
    return table;
  }

  /// How far each model reaches, every seed listed: outcomes of such tasks are often all or nothing.
  Table reach_table() const {
    Table table{.id = cat(task_, "_reach"), .title = cat("Length generalisation: ", task_)};
    table.columns = arm_columns(results_);
    struct Measure {
      const char* id;
      const char* header;
      NumberStyle style;
    };
    const Measure measures[] = {{"len90", "length at 90 %", NumberStyle::kCount},
                                {"ext_ratio", "over training", NumberStyle::kPerplexity},
                                {"ood_mean_em", "exact match beyond, %", NumberStyle::kPercent},
                                {"ood_mean_token_acc", "token accuracy beyond, %", NumberStyle::kPercent}};
    for (const Measure& measure : measures) {
      table.columns.push_back({.id = measure.id,
                               .header = measure.header,
                               .style = measure.style,
                               .direction = Direction::kHigherIsBetter});
    }
    table.columns.push_back({.id = "seeds", .header = "exact match beyond, by seed", .text = true});
    for (const Arm* each : asked_) {
      const Arm& arm = *each;
      Row row{.cells = arm_cells(results_, arm)};
      std::vector<std::string> by_seed;
      for (const Measure& measure : measures) {
        std::vector<double> values;
        for (const std::size_t run : arm.runs) {
          const auto own = reach_.find(run);
          if (own == reach_.end()) continue;
          const auto value = own->second.measures.find(measure.id);
          if (value == own->second.measures.end() || !std::isfinite(value->second)) continue;
          values.push_back(value->second);
          if (measure.id == std::string("ood_mean_em"))
            by_seed.push_back(cat(results_.runs[run].seed, ": ", format_number(value->second, NumberStyle::kPercent)));
        }
        const double median = values.empty() ? NAN : statistics::median_of(values);
        const bool none = median == 0 && is_reach(measure.id);
        row.cells.push_back(values.empty() ? Cell::missing("–", "not tested")
                            : none         ? Cell::missing("none", "below 90 % at the shortest tested length")
                                           : Cell::of_number(median));
      }
      row.cells.push_back(Cell::of_text(support::join(by_seed, "; ")));
      table.rows.push_back(std::move(row));
    }
    table.caption =
        cat("Medians over seeds. Length at 90 %: the largest tested length up to which exact match stays at 90 %; "
            "none: below it already at the shortest; beyond: mean over all "
            "tested lengths beyond the training lengths. ",
            words());
    return table;
  }

  const Results& results_;
  std::string task_;
  std::map<std::size_t, Reach> reach_;
  std::vector<const Arm*> asked_;  ///< models that were asked this task
  std::set<std::int64_t> lengths_;
  std::set<double> trained_;
  std::set<double> items_;  ///< of a model at a length
  double chance_low_ = 1, chance_high_ = 0;
  bool algorithmic_ = false;
};

}  // namespace

Section tasks_section(const Results& results, Palette& palette) {
  Section section{.id = "tasks", .title = "Synthetic tasks"};
  std::vector<std::string> tasks;
  std::set<std::string> known;
  for (const TaskCell& cell : results.tasks) {
    if (known.insert(cell.task).second) tasks.push_back(cell.task);
  }
  for (const std::string& task : tasks) TaskView(results, task).add_to(section, palette);
  return section;
}

}  // namespace pe::report
