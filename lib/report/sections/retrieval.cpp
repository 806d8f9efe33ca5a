// Retrieval: passkeys, needles and RULER's tasks by length and depth. Small models hardly ever answer exactly, so the
// gain in nats leads there.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/sections/section.h"
#include "statistics/two_level.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

/// Nats per token that a fact must save within the training length. Otherwise a gain beyond it is no retrieval.
constexpr double kLeastGain = 0.1;
constexpr const char* kNotAcquired =
    "the task was not acquired at the training length, so a gain beyond it is no retrieval";

/// One run at one length, and one depth or all.
struct Summary {
  std::map<std::string, double> exact;  ///< by item
  double gain = 0;                      ///< nats per answer token that the fact saves
  std::string status = "not_measured";
};

Summary summary_of(const Results& results, const std::string& task, std::size_t run, std::int64_t length,
                   std::optional<double> depth) {
  Summary summary;
  double saved = 0, tokens = 0;
  for (const Trial* trial : results.find_trials(run, task, length)) {
    if (depth && trial->depth != *depth) continue;
    summary.exact[trial->item.empty() ? cat(summary.exact.size()) : trial->item] = trial->exact;
    saved += trial->nll_control - trial->nll;
    tokens += trial->digits;
  }
  if (!summary.exact.empty()) {
    summary.status = "ok";
    summary.gain = saved / tokens;
    return summary;
  }
  const TaskCell* cell = results.find_retrieval(run, task, length);
  if (cell && cell->status != "ok") summary.status = cell->status;
  return summary;
}

/// An arm over its seeds.
struct RetrievalCells {
  std::vector<double> gain, exact;  ///< of each seed
  statistics::TwoLevel share;       ///< of exact answers; the same items in every seed
  std::string status = "ok";
};

RetrievalCells retrieval_cells(const Results& results, const std::string& task, const Arm& arm, std::int64_t length,
                               std::optional<double> depth = {}) {
  RetrievalCells cells;
  std::vector<std::map<std::string, double>> seeds;
  for (const std::size_t run : arm.runs) {
    Summary one = summary_of(results, task, run, length, depth);
    if (one.status != "ok") {
      cells.status = one.status;
      continue;
    }
    double right = 0;
    for (const auto& [item, exact] : one.exact) right += exact;
    cells.gain.push_back(one.gain);
    cells.exact.push_back(right / static_cast<double>(one.exact.size()));
    seeds.push_back(std::move(one.exact));
  }
  if (seeds.empty()) return cells;
  std::vector<std::vector<double>> values(seeds.size());
  for (const auto& [item, exact] : seeds.front()) {
    if (!std::all_of(seeds.begin(), seeds.end(), [item = item](const auto& seed) { return seed.count(item) != 0; }))
      continue;
    for (std::size_t s = 0; s < seeds.size(); ++s) values[s].push_back(seeds[s].at(item));
  }
  cells.share = statistics::two_level_share(values);
  return cells;
}

Cell gain_cell(const RetrievalCells& cells) {
  if (cells.status != "ok") return Cell::missing(mark_of(cells.status), reason_of(cells.status));
  Cell cell = mean_cell(cells.gain);
  cell.few = cells.share.items < statistics::kFewItems;
  return cell;
}

Cell exact_cell(const RetrievalCells& cells) {
  if (cells.status != "ok") return Cell::missing(mark_of(cells.status), reason_of(cells.status));
  Cell cell = share_cell(cells.exact);
  cell.few = cells.share.items < statistics::kFewItems;
  if (cells.exact.size() == 1 && std::isfinite(cells.share.interval.low)) cell.interval = cells.share.interval;
  return cell;
}

/// One task of the section, and the common parts of its captions.
class RetrievalView {
 public:
  RetrievalView(const Results& results, std::string task) : results_(results), task_(std::move(task)) {
    std::map<std::size_t, std::map<std::pair<std::int64_t, double>, std::size_t>> counts;  // run → cell → trials
    std::map<std::int64_t, std::map<std::size_t, std::set<std::string>>> items;            // length → run → items
    for (const Trial& trial : results.trials) {
      if (trial.task != task_) continue;
      lengths_.insert(trial.length);
      if (std::isfinite(trial.depth)) depths_.insert(trial.depth);
      ++counts[trial.run][{trial.length, std::isfinite(trial.depth) ? trial.depth : -1}];
      items[trial.length][trial.run].insert(trial.item);
    }
    for (const auto& [length, runs] : items) {
      for (const auto& [run, asked] : runs) same_items_ = same_items_ && asked == runs.begin()->second;
    }
    std::set<std::size_t> asked;
    for (const TaskCell& cell : results.retrieval) {
      if (cell.task != task_) continue;
      lengths_.insert(cell.length);
      asked.insert(cell.run);
    }
    for (const auto& [run, cells] : counts) asked.insert(run);
    asked_ = arms_with(results, asked);
    for (const auto& [run, cells] : counts) {
      for (const auto& [cell, trials] : cells) {
        fewest_ = fewest_ == 0 ? trials : std::min(fewest_, trials);
        most_ = std::max(most_, trials);
      }
    }
    exact_leads_ = exact_leads();
    for (const Arm* arm : asked_) {
      if (!exact_leads_ && !acquired(*arm)) not_acquired_.insert(arm);
    }
  }

  bool empty() const { return lengths_.empty(); }

  void add_to(Section& section, Palette& palette) const {
    if (Figure figure = curve(palette); !figure.panels.empty()) section.figures.push_back(std::move(figure));
    if (depths_.size() > 1) section.figures.push_back(map());
    section.tables.push_back(table());
  }

 private:
  /// Exact answers lead only if every model gives them in at least 5 % of trials where it was trained.
  bool exact_leads() const {
    for (const Arm& arm : results_.arms) {
      const std::int64_t trained = train_length_of(results_, arm);
      for (const std::int64_t length : lengths_) {
        if (trained > 0 && length > trained) continue;
        const RetrievalCells cells = retrieval_cells(results_, task_, arm, length);
        if (!cells.exact.empty() && mean_of_finite(cells.exact) < 0.05) return false;
      }
    }
    return true;
  }

  /// Whether facts help the model where it was trained; beyond, the loss of one that they do not help moves for other
  /// reasons. True where no length of training was tested.
  bool acquired(const Arm& arm) const {
    const std::int64_t trained = train_length_of(results_, arm);
    bool tested = false;
    for (const std::int64_t length : lengths_) {
      if (length > trained) break;
      const RetrievalCells cells = retrieval_cells(results_, task_, arm, length);
      if (cells.status != "ok") continue;
      tested = true;
      if (mean_of_finite(cells.gain) >= kLeastGain) return true;
    }
    return !tested;
  }

  /// Its gain at a length says nothing: the task was not acquired, and the length is beyond the training length.
  bool is_hidden(const Arm& arm, std::int64_t length) const {
    return not_acquired_.count(&arm) != 0 && length > train_length_of(results_, arm);
  }

  /// Models of whom nothing is drawn, with the reason.
  std::string not_drawn_words() const {
    if (not_acquired_.empty()) return "";
    std::vector<std::string> names;
    for (const Arm* arm : asked_) {
      if (not_acquired_.count(arm) != 0) names.push_back(arm_name(*arm, has_variants(results_)));
    }
    return cat("not shown beyond training, since the fact saves them less than ", support::shortest(kLeastGain),
               " nats per token where they were trained: ", support::join(names, ", "), ".");
  }

  std::string protocol_words() const {
    const std::string trials = fewest_ == most_ ? cat(most_) : cat(fewest_, " to ", most_);
    const std::string where =
        depths_.empty() ? " per length"
                        : cat(" per length at each of ", depths_.size(), depths_.size() == 1 ? " depth" : " depths");
    return join_as_sentence({most_ > 0
                                 ? cat(trials, " trials", where,
                                       same_items_ ? ", the same for every model" : ", not the same for every model")
                                 : "",
                             seeds_sentence(results_), training_sentence(results_), not_drawn_words()});
  }

  const char* gain_words() const {
    return "Gain: nats per answer token that the stated fact saves against filler of the same length; 0 is no "
           "retrieval.";
  }

  Figure curve(Palette& palette) const {
    Figure figure{
        .id = cat(task_, "_length"),
        .title = cat("Retrieval against length: ", task_),
        .x = {.title = "Prompt and answer, tokens", .scale = Scale::kLog2},
        .y = {.title = exact_leads_ ? "Exact match, higher is better" : "Gain, nats per answer token, higher is better",
              .ticks = exact_leads_ ? TickStyle::kPercent : TickStyle::kPlain}};
    if (exact_leads_) {
      figure.y.low = 0;
      figure.y.high = 1.02;
    }
    for (const std::string& variant : results_.variants) {
      Panel panel{.title = has_variants(results_) ? variant : ""};
      add_training_rules(panel, results_, variant);
      if (!exact_leads_) panel.rules.push_back({false, 0, ""});
      for (const Arm& arm : results_.arms) {
        if (arm.variant == variant) add_arm(panel, arm, palette);
      }
      if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
    }
    figure.caption = cat(
        exact_leads_ ? "Line: median over seeds; small marks: single seeds; whiskers: Wilson's 95 % interval over "
                       "trials, of one seed. "
                     : cat(gain_words(), " Thick: mean over seeds; band: 95 % t interval over seeds, from three on. "),
        protocol_words());
    figure.description = cat("Line chart of retrieval against length for ", support::join(results_.encodings, ", "),
                             ". The values are in the table.");
    return figure;
  }

  void add_arm(Panel& panel, const Arm& arm, Palette& palette) const {
    std::vector<double> xs;
    std::vector<std::vector<double>> values(arm.runs.size());
    std::vector<std::string> seeds;
    std::vector<statistics::Interval> intervals;
    for (const std::size_t run : arm.runs) seeds.push_back(results_.runs[run].seed);
    for (const std::int64_t length : lengths_) {
      const RetrievalCells cells = retrieval_cells(results_, task_, arm, length);
      if (cells.status != "ok" || is_hidden(arm, length)) continue;
      xs.push_back(static_cast<double>(length));
      for (std::size_t s = 0; s < values.size(); ++s)
        values[s].push_back(exact_leads_ ? cells.exact[s] : cells.gain[s]);
      intervals.push_back(cells.share.interval);
    }
    if (xs.empty()) return;
    const Look& look = palette.look(arm.encoding);
    if (!exact_leads_) return add_arm_series(panel, arm, look, seeds, xs, values, [](double v) { return v; });
    add_share_series(panel, arm, look, seeds, xs, values);
    if (values.size() > 1) return;
    Series& main = panel.series.back();
    main.whiskers = true;
    for (std::size_t i = 0; i < main.points.size(); ++i) {
      main.points[i].low = intervals[i].low;
      main.points[i].high = intervals[i].high;
    }
  }

  Figure map() const {
    Figure map{.id = cat(task_, "_map"),
               .title = cat("Retrieval by length and depth: ", task_),
               .kind = Figure::Kind::kHeatMap,
               .x = {.title = "Prompt and answer, tokens"},
               .y = {.title = "Depth of the fact, % (0: first)"},
               .columns = 3};
    for (const std::int64_t length : lengths_) map.x_names.push_back(support::with_commas(length));
    const std::vector<double> ordered(depths_.rbegin(), depths_.rend());  // 0 % on top
    for (const double depth : ordered) map.y_names.push_back(cat(std::llround(depth * 100)));
    map.heat_low = 0;
    map.heat_title = exact_leads_ ? "" : "nats";
    map.heat_ticks = exact_leads_ ? TickStyle::kPercent : TickStyle::kPlain;
    map.heat_high = exact_leads_ ? 1 : 0.1;
    for (const Arm* each : asked_) {
      const Arm& arm = *each;
      Panel panel{.title = arm_name(arm, has_variants(results_)), .encoding = arm.encoding, .variant = arm.variant};
      const std::int64_t trained = train_length_of(results_, arm);
      int column = 0;
      for (const std::int64_t length : lengths_) {
        for (std::size_t row = 0; row < ordered.size(); ++row) {
          panel.cells.push_back(heat_cell(arm, length, ordered[row], column, static_cast<int>(row)));
          if (!exact_leads_ && std::isfinite(panel.cells.back().value))
            map.heat_high = std::max(map.heat_high, panel.cells.back().value);
        }
        const auto next = std::next(lengths_.find(length));
        if (trained > 0 && length <= trained && (next == lengths_.end() || *next > trained)) {
          panel.rules.push_back({true, column + 0.5, "training length"});
        }
        ++column;
      }
      map.panels.push_back(std::move(panel));
    }
    if (!exact_leads_)
      map.heat_high = map.heat_high > 0.5 ? std::ceil(2 * map.heat_high) / 2 : std::ceil(10 * map.heat_high) / 10;
    map.caption = cat(exact_leads_ ? "Exact match, %, median over seeds; colours from 0 to 100 %. "
                                   : cat("Mean over seeds. ", gain_words(), " "),
                      protocol_words());
    map.description = "Heat maps, one per model; the marginals over depth are in the table.";
    return map;
  }

  HeatCell heat_cell(const Arm& arm, std::int64_t length, double depth, int column, int row) const {
    HeatCell cell{.column = column, .row = row, .value = kUnknown, .text = "n/a"};
    const RetrievalCells cells = retrieval_cells(results_, task_, arm, length, depth);
    if (cells.status != "ok" || is_hidden(arm, length)) return cell;
    const double value =
        exact_leads_ ? statistics::median_of(cells.exact) : statistics::summarise_seeds(cells.gain).mean;
    if (!std::isfinite(value)) return cell;
    cell.value = value;
    cell.text = exact_leads_ ? cat(std::llround(value * 100))
                             : format_number(std::round(value * 100) / 100, NumberStyle::kPerplexity);
    return cell;
  }

  Table table() const {
    Table table{.id = task_, .title = cat("Retrieval: ", task_)};
    table.columns = arm_columns(results_);
    for (const std::int64_t length : lengths_) {
      table.columns.push_back({.id = cat("gain_", length),
                               .header = length_header(results_, length),
                               .group = "gain, nats per token",
                               .style = NumberStyle::kSignedNats,
                               .direction = Direction::kHigherIsBetter});
    }
    for (const std::int64_t length : lengths_) {
      table.columns.push_back({.id = cat("exact_", length),
                               .header = length_header(results_, length),
                               .group = "exact match, %",
                               .style = NumberStyle::kPercent,
                               .direction = Direction::kHigherIsBetter});
    }
    std::string last = asked_.empty() ? "" : asked_.front()->variant;
    for (const Arm* each : asked_) {
      const Arm& arm = *each;
      Row row{.cells = arm_cells(results_, arm), .rule_above = arm.variant != last};
      last = arm.variant;
      std::vector<Cell> exact;
      for (const std::int64_t length : lengths_) {
        const RetrievalCells cells = retrieval_cells(results_, task_, arm, length);
        row.cells.push_back(is_hidden(arm, length) && cells.status == "ok" ? Cell::missing("–", kNotAcquired)
                                                                           : gain_cell(cells));
        exact.push_back(exact_cell(cells));
      }
      row.cells.insert(row.cells.end(), exact.begin(), exact.end());
      table.rows.push_back(std::move(row));
    }
    table.caption =
        cat(gain_words(),
            " Gains: mean, 95 % t interval over seeds from three on; exact match: median over seeds, and each seed in "
            "brackets, of one seed Wilson's 95 % interval over trials. ",
            protocol_words());
    return table;
  }

  const Results& results_;
  std::string task_;
  std::set<std::int64_t> lengths_;
  std::set<double> depths_;
  std::vector<const Arm*> asked_;      ///< models that were asked this task
  std::size_t fewest_ = 0, most_ = 0;  ///< trials in a cell
  bool exact_leads_ = false, same_items_ = true;
  std::set<const Arm*> not_acquired_;  ///< arms without a gain at the training length
};

}  // namespace

Section retrieval_section(const Results& results, Palette& palette) {
  Section section{.id = "retrieval", .title = "Retrieval"};
  std::vector<std::string> tasks;
  std::set<std::string> known;
  const auto add = [&](const std::string& task) {
    if (known.insert(task).second) tasks.push_back(task);
  };
  for (const TaskCell& cell : results.retrieval) add(cell.task);
  for (const Trial& trial : results.trials) add(trial.task);
  for (const std::string& task : tasks) {
    if (const RetrievalView view(results, task); !view.empty()) view.add_to(section, palette);
  }
  return section;
}

}  // namespace pe::report
