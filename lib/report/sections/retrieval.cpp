// Retrieval: passkeys by length and depth. Small models hardly ever answer exactly, so the gain in nats leads there.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

struct Summary {
  double trials = 0;
  double exact = 0;  // trials that were right
  double gain = 0;   // nats per answer token that the fact saves
  std::string status = "not_measured";
};

Summary summary_of(const Results& results, const std::string& task, std::size_t run, std::int64_t length,
                   std::optional<double> depth) {
  Summary summary;
  double saved = 0, tokens = 0;
  for (const Trial& trial : results.trials) {
    if (trial.run != run || trial.task != task || trial.length != length || (depth && trial.depth != *depth)) continue;
    ++summary.trials;
    summary.exact += trial.exact;
    saved += trial.nll_control - trial.nll;
    tokens += trial.digits;
  }
  if (summary.trials > 0) {
    summary.status = "ok";
    summary.gain = saved / tokens;
    return summary;
  }
  for (const TaskCell& cell : results.retrieval) {
    if (cell.run == run && cell.task == task && cell.length == length && cell.status != "ok")
      summary.status = cell.status;
  }
  return summary;
}

struct Cells {
  std::vector<double> gain, exact;  // of each seed
  double trials = 0, right = 0;     // over all seeds
  std::string status = "ok";
};

Cells cells_of(const Results& results, const std::string& task, const Arm& arm, std::int64_t length,
               std::optional<double> depth = {}) {
  Cells cells;
  for (const std::size_t run : arm.runs) {
    const Summary one = summary_of(results, task, run, length, depth);
    if (one.status != "ok") {
      cells.status = one.status;
      continue;
    }
    cells.gain.push_back(one.gain);
    cells.exact.push_back(one.exact / one.trials);
    cells.trials += one.trials;
    cells.right += one.exact;
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

Section retrieval_section(const Results& results, Palette& palette) {
  Section section{.id = "retrieval", .title = "Retrieval"};
  std::vector<std::string> tasks;
  for (const auto* list : {&results.retrieval}) {
    for (const TaskCell& cell : *list) {
      if (std::find(tasks.begin(), tasks.end(), cell.task) == tasks.end()) tasks.push_back(cell.task);
    }
  }
  for (const Trial& trial : results.trials) {
    if (std::find(tasks.begin(), tasks.end(), trial.task) == tasks.end()) tasks.push_back(trial.task);
  }
  for (const std::string& task : tasks) {
    std::set<std::int64_t> lengths;
    std::set<double> depths;
    std::size_t per_cell = 0;
    for (const Trial& trial : results.trials) {
      if (trial.task != task) continue;
      lengths.insert(trial.length);
      depths.insert(trial.depth);
    }
    for (const TaskCell& cell : results.retrieval) {
      if (cell.task == task) lengths.insert(cell.length);
    }
    if (lengths.empty()) continue;
    if (!results.trials.empty() && !depths.empty()) {
      const Trial& first = results.trials.front();
      for (const Trial& trial : results.trials)
        per_cell +=
            trial.run == first.run && trial.task == task && trial.length == first.length && trial.depth == first.depth;
    }

    // The rule for what leads: exact answers only if every model gives them in at least 5 % of trials where it was
    // trained.
    bool exact_leads = true;
    for (const Arm& arm : results.arms) {
      for (const std::int64_t length : lengths) {
        if (results.train_length > 0 && length > results.train_length) continue;
        const Cells cells = cells_of(results, task, arm, length);
        if (cells.trials > 0 && cells.right / cells.trials < 0.05) exact_leads = false;
      }
    }
    const std::string protocol = cat("Every answer is scored with the true answer fed; ", depths.size(),
                                     depths.size() == 1 ? " depth" : " depths", ", ", per_cell,
                                     " trials per length and depth, the same for every model. ",
                                     seeds_sentence(results), " ", training_sentence(results));
    const std::string gain_words =
        "Gain (S2): nats per answer token that the stated fact saves against filler of the same length; 0 is no "
        "retrieval, ln 10 ≈ 2.303 the ceiling "
        "once the format of digits is known.";
    const std::string lead_words =
        exact_leads ? "Exact answers lead."
                    : "Exact answers (S0) are below 5 % for some model within its training length, so the gain leads.";

    Figure curve{.id = cat(task, "_length"),
                 .title = cat("Retrieval against length: ", task),
                 .x = {.title = "Prompt and answer, tokens", .scale = Scale::kLog2},
                 .y = {.title = exact_leads ? "Exact answers" : "Gain, nats per answer token",
                       .ticks = exact_leads ? TickStyle::kPercent : TickStyle::kPlain}};
    if (exact_leads) {
      curve.y.low = 0;
      curve.y.high = 1.02;
    }
    for (const std::string& variant : results.variants) {
      Panel panel{.title = tells_variants(results) ? variant : ""};
      if (results.train_length > 0)
        panel.rules.push_back({true, static_cast<double>(results.train_length), "training length"});
      if (!exact_leads) panel.rules.push_back({false, 0, ""});
      for (const Arm& arm : results.arms) {
        if (arm.variant != variant) continue;
        std::vector<double> xs;
        std::vector<std::vector<double>> values(arm.runs.size());
        std::vector<std::string> seeds;
        std::vector<Interval> wilsons;
        for (const std::size_t run : arm.runs) seeds.push_back(results.runs[run].seed);
        for (const std::int64_t length : lengths) {
          const Cells cells = cells_of(results, task, arm, length);
          if (cells.status != "ok") continue;
          xs.push_back(static_cast<double>(length));
          for (std::size_t s = 0; s < values.size(); ++s)
            values[s].push_back(exact_leads ? cells.exact[s] : cells.gain[s]);
          wilsons.push_back(wilson(cells.right, cells.trials));
        }
        if (xs.empty()) continue;
        add_arm_series(panel, arm, palette.look(arm.encoding), seeds, xs, values, [](double v) { return v; });
        if (exact_leads) {
          Series& main = panel.series.back();
          main.whiskers = true;
          for (std::size_t i = 0; i < main.points.size(); ++i) {
            main.points[i].low = wilsons[i].low;
            main.points[i].high = wilsons[i].high;
          }
        }
      }
      if (!panel.series.empty()) curve.panels.push_back(std::move(panel));
    }
    curve.caption =
        cat(lead_words, " ",
            exact_leads
                ? "Whiskers: 95 % Wilson intervals over trials. "
                : gain_words +
                      " Thick: mean over seeds; thin: single seeds; band: 95 % t interval over seeds, from three on. ",
            protocol);
    curve.description = cat("Line chart of retrieval against length for ", support::join(results.encodings, ", "),
                            ". The values are in the table.");
    if (!curve.panels.empty()) section.figures.push_back(std::move(curve));

    if (depths.size() > 1) {
      Figure map{.id = cat(task, "_map"),
                 .title = cat("Retrieval by length and depth: ", task),
                 .kind = Figure::Kind::kHeatMap,
                 .x = {.title = "Prompt and answer, tokens"},
                 .y = {.title = "Depth of the fact, % (0: first)"},
                 .columns = 3};
      for (const std::int64_t length : lengths)
        map.x_names.push_back(length >= 1024 && length % 1024 == 0 ? cat(length / 1024, "k") : cat(length));
      const std::vector<double> ordered(depths.rbegin(), depths.rend());  // 0 % on top
      for (const double depth : ordered) map.y_names.push_back(cat(std::llround(depth * 100)));
      map.heat_low = 0;
      map.heat_high = exact_leads ? 1 : 0.1;
      for (const Arm& arm : results.arms) {
        Panel panel{.title = arm_name(arm, tells_variants(results))};
        int column = 0;
        for (const std::int64_t length : lengths) {
          for (std::size_t row = 0; row < ordered.size(); ++row) {
            const Cells cells = cells_of(results, task, arm, length, ordered[row]);
            HeatCell cell{.column = column, .row = static_cast<int>(row), .value = kUnknown, .text = "n/a"};
            if (cells.status == "ok") {
              cell.value = exact_leads ? cells.right / cells.trials : summarise_seeds(cells.gain).mean;
              if (!std::isfinite(cell.value))
                cell.value = kUnknown;
              else
                cell.text = exact_leads ? cat(std::llround(cell.value * 100))
                                        : format_number(std::round(cell.value * 100) / 100, NumberStyle::kPerplexity);
              if (!exact_leads && std::isfinite(cell.value)) map.heat_high = std::max(map.heat_high, cell.value);
            }
            panel.cells.push_back(cell);
          }
          if (results.train_length > 0 && length <= results.train_length &&
              (std::next(lengths.find(length)) == lengths.end() ||
               *std::next(lengths.find(length)) > results.train_length)) {
            panel.rules.push_back({true, column + 0.5, "training length"});
          }
          ++column;
        }
        map.panels.push_back(std::move(panel));
      }
      if (!exact_leads)
        map.heat_high = map.heat_high > 0.5 ? std::ceil(2 * map.heat_high) / 2 : std::ceil(10 * map.heat_high) / 10;
      map.caption =
          cat(exact_leads ? "Share of exact answers, %; colours from 0 to 1. "
                          : cat("Mean over seeds. ", gain_words, " Colours begin at 0; one scale for all panels. "),
              protocol);
      map.description = "Heat maps, one per model; the marginals over depth are in the table.";
      section.figures.push_back(std::move(map));
    }

    Table table{.id = task, .title = cat("Retrieval: ", task)};
    table.columns = arm_columns(results);
    for (const std::int64_t length : lengths) {
      table.columns.push_back({.id = cat("gain_", length),
                               .header = length_header(results, length),
                               .group = "gain (S2), nats per token",
                               .style = NumberStyle::kSignedNats,
                               .direction = Direction::kHigherIsBetter});
    }
    for (const std::int64_t length : lengths) {
      table.columns.push_back({.id = cat("exact_", length),
                               .header = length_header(results, length),
                               .group = "exact (S0), %",
                               .style = NumberStyle::kPercent,
                               .direction = Direction::kHigherIsBetter});
    }
    std::string last = results.variants.front();
    for (const Arm& arm : results.arms) {
      Row row{.cells = arm_cells(results, arm), .rule_above = arm.variant != last};
      last = arm.variant;
      for (const std::int64_t length : lengths) {
        const Cells cells = cells_of(results, task, arm, length);
        row.cells.push_back(mean_cell(cells, cells.gain));
      }
      for (const std::int64_t length : lengths) {
        const Cells cells = cells_of(results, task, arm, length);
        Cell cell = mean_cell(cells, cells.exact);
        cell.parts.clear();
        cell.half_width.reset();
        if (cell.number) cell.interval = wilson(cells.right, cells.trials);
        row.cells.push_back(std::move(cell));
      }
      table.rows.push_back(std::move(row));
    }
    table.caption = cat(lead_words, " ", gain_words,
                        " Gains: mean over seeds, ± 95 % t interval from three seeds on, two seeds both printed. "
                        "Exact answers: all seeds and depths pooled, 95 % Wilson interval in brackets. ",
                        protocol);
    section.tables.push_back(std::move(table));
  }
  return section;
}

}  // namespace pe::report
