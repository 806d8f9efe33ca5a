// Synthetic tasks by length, such as copying: token accuracy leads, exact match and likelihood stand beside it.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

struct Cells {
  std::vector<double> exact, tokens, nll;
  double items = 0;
  std::string status = "ok";
};

Cells cells_of(const Results& results, const std::string& task, const Arm& arm, std::int64_t length) {
  Cells cells;
  for (const std::size_t run : arm.runs) {
    const TaskCell* found = nullptr;
    for (const TaskCell& cell : results.tasks) {
      if (cell.run == run && cell.task == task && cell.length == length) found = &cell;
    }
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

Cell mean_cell(const Cells& cells, const std::vector<double>& values) {
  if (cells.status != "ok") return Cell::missing(mark_of(cells.status), reason_of(cells.status));
  const SeedSummary summary = summarise_seeds(values);
  Cell cell = Cell::of_number(summary.mean);
  if (std::isfinite(summary.half_width))
    cell.half_width = summary.half_width;
  else if (values.size() == 2)
    cell.parts = values;
  return cell;
}

}  // namespace

Section tasks_section(const Results& results, Palette& palette) {
  Section section{.id = "tasks", .title = "Synthetic tasks"};
  std::vector<std::string> tasks;
  for (const TaskCell& cell : results.tasks) {
    if (std::find(tasks.begin(), tasks.end(), cell.task) == tasks.end()) tasks.push_back(cell.task);
  }
  for (const std::string& task : tasks) {
    std::set<std::int64_t> lengths;
    double items = 0, chance_low = 1, chance_high = 0;
    for (const TaskCell& cell : results.tasks) {
      if (cell.task != task) continue;
      lengths.insert(cell.length);
      if (std::isfinite(cell.n)) items = std::max(items, cell.n);
      if (std::isfinite(cell.chance)) {
        chance_low = std::min(chance_low, cell.chance);
        chance_high = std::max(chance_high, cell.chance);
      }
    }
    std::string words = task == "copy" ? "Copy: distinct pieces, a newline, and the same pieces again; the second half "
                                         "is scored with the true pieces fed. "
                                       : "";
    if (items > 0)
      words +=
          cat("Up to ", support::with_commas(std::llround(items)), " items per length, the same for every model. ");
    if (chance_high > 0)
      words += cat("Guessing among what an item shows is right in ", format_number(chance_low, NumberStyle::kPercent),
                   " to ", format_number(chance_high, NumberStyle::kPercent), " % of tokens. ");
    words += cat(seeds_sentence(results), " ", training_sentence(results));

    Figure figure{.id = cat(task, "_length"),
                  .title = cat("Token accuracy against length: ", task),
                  .x = {.title = "Context length, tokens", .scale = Scale::kLog2},
                  .y = {.title = "Token accuracy, higher is better", .ticks = TickStyle::kPercent}};
    figure.y.low = 0;
    double highest = 0;
    for (const std::string& variant : results.variants) {
      Panel panel{.title = tells_variants(results) ? variant : ""};
      if (results.train_length > 0)
        panel.rules.push_back({true, static_cast<double>(results.train_length), "training length"});
      for (const Arm& arm : results.arms) {
        if (arm.variant != variant) continue;
        std::vector<double> xs;
        std::vector<std::vector<double>> values(arm.runs.size());
        std::vector<std::string> seeds;
        for (const std::size_t run : arm.runs) seeds.push_back(results.runs[run].seed);
        for (const std::int64_t length : lengths) {
          const Cells cells = cells_of(results, task, arm, length);
          if (cells.status != "ok") continue;
          xs.push_back(static_cast<double>(length));
          for (std::size_t s = 0; s < values.size(); ++s) {
            values[s].push_back(cells.tokens[s]);
            highest = std::max(highest, std::isfinite(cells.tokens[s]) ? cells.tokens[s] : 0);
          }
        }
        if (!xs.empty())
          add_arm_series(panel, arm, palette.look(arm.encoding), seeds, xs, values, [](double v) { return v; });
      }
      if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
    }
    figure.y.high = highest > 0.5 ? 1.02 : std::max(0.01, 1.15 * highest);
    figure.caption =
        cat(words, " Thick: mean over seeds; thin: single seeds; band: 95 % t interval over seeds, from three on.",
            highest > 0.5 ? "" : " The axis ends far below 100 %.");
    figure.description = cat("Line chart of token accuracy against length for ", support::join(results.encodings, ", "),
                             ". The values are in the table.");
    if (!figure.panels.empty()) section.figures.push_back(std::move(figure));

    Table table{.id = task, .title = cat("Synthetic task: ", task)};
    table.columns = arm_columns(results);
    struct Measure {
      const char* id;
      const char* group;
      NumberStyle style;
      Direction direction;
      std::vector<double> Cells::*values;
    };
    const Measure measures[] = {
        {"accuracy", "token accuracy, %", NumberStyle::kPercent, Direction::kHigherIsBetter, &Cells::tokens},
        {"exact", "exact match, %", NumberStyle::kPercent, Direction::kHigherIsBetter, &Cells::exact},
        {"nll", "nats per token", NumberStyle::kNats, Direction::kLowerIsBetter, &Cells::nll}};
    for (const Measure& measure : measures) {
      for (const std::int64_t length : lengths) {
        table.columns.push_back({.id = cat(measure.id, "_", length),
                                 .header = length_header(results, length),
                                 .group = measure.group,
                                 .style = measure.style,
                                 .direction = measure.direction});
      }
    }
    std::string last = results.variants.front();
    for (const Arm& arm : results.arms) {
      Row row{.cells = arm_cells(results, arm), .rule_above = arm.variant != last};
      last = arm.variant;
      for (const Measure& measure : measures) {
        for (const std::int64_t length : lengths) {
          const Cells cells = cells_of(results, task, arm, length);
          row.cells.push_back(mean_cell(cells, cells.*measure.values));
        }
      }
      table.rows.push_back(std::move(row));
    }
    table.caption =
        cat(words, " Mean over seeds; ± is the 95 % t interval over seeds, from three on; two seeds are both printed.");
    section.tables.push_back(std::move(table));
  }
  return section;
}

}  // namespace pe::report
