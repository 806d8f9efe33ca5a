// The cost of an encoding compared with none: bars of time and memory, sorted.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

struct TimesAndPeak {
  std::vector<double> median, low, high, peak;
};

struct OverheadTimes {
  std::map<std::tuple<std::size_t, std::int64_t, std::string>, TimesAndPeak> at;  ///< arm, length, component
  std::set<std::int64_t> lengths;
  double repetitions = 0;
};

OverheadTimes overhead_times(const Results& results, const CostSetting& setting) {
  OverheadTimes timings;
  each_row<schema::Cost>(results, [&](std::size_t run, const schema::Cost& row) {
    if (row.path != "best" || row.status != "ok" || setting_of(row) != setting) return;
    TimesAndPeak& timing = timings.at[{arm_of(results, run), row.length, row.component}];
    timing.median.push_back(row.median_ms);
    timing.low.push_back(row.p25_ms);
    timing.high.push_back(row.p75_ms);
    timing.peak.push_back(schema::real_of(row.peak_bytes));
    timings.lengths.insert(row.length);
    timings.repetitions = row.reps;
  });
  return timings;
}

/// Two components to compare, in time or in memory.
struct Contrast {
  const char* title;
  const char *with, *without;
  bool memory = false;
};

struct Bar {
  std::size_t arm;
  double share, low, high;
};

/// At the longest length, the cheapest on top.
std::vector<Bar> bars_of(const Results& results, const OverheadTimes& timings, const Contrast& contrast) {
  const std::int64_t length = *timings.lengths.rbegin();
  std::vector<Bar> bars;
  for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
    const auto a = timings.at.find({arm, length, contrast.with}), b = timings.at.find({arm, length, contrast.without});
    if (a == timings.at.end() || b == timings.at.end()) continue;
    const double base = mean_of_finite(contrast.memory ? b->second.peak : b->second.median);
    if (!(base > 0)) continue;
    const auto relative = [&](const std::vector<double>& values) { return mean_of_finite(values) / base - 1; };
    Bar bar{arm, relative(contrast.memory ? a->second.peak : a->second.median), kUnknown, kUnknown};
    if (!contrast.memory) {
      bar.low = relative(a->second.low);
      bar.high = relative(a->second.high);
    }
    if (std::isfinite(bar.share)) bars.push_back(bar);
  }
  std::stable_sort(bars.begin(), bars.end(), [](const Bar& x, const Bar& y) { return x.share > y.share; });
  return bars;
}

/// `order`: arms from below.
Panel bars_panel(const Results& results, Palette& palette, const char* title, const std::vector<Bar>& bars,
                 const std::vector<std::size_t>& order, double repetitions) {
  Panel panel{.title = title};
  double low = 0, high = 0;
  for (const Bar& bar : bars) {
    const Arm& arm = results.arms[bar.arm];
    Series series{.name = arm_name(arm, has_variants(results)),
                  .look = palette.look(arm.encoding),
                  .labelled = false,
                  .variant = arm.variant};
    series.points.push_back({.x = bar.share,
                             .y = static_cast<double>(std::find(order.begin(), order.end(), bar.arm) - order.begin()),
                             .low = bar.low,
                             .high = bar.high,
                             .n = repetitions});
    for (const double x : {bar.share, bar.low, bar.high}) {
      if (!std::isfinite(x)) continue;
      low = std::min(low, x);
      high = std::max(high, x);
    }
    panel.series.push_back(std::move(series));
  }
  const double air = std::max(0.06 * (high - low), 0.005);
  panel.x_low = low < 0 ? low - air : 0;
  panel.x_high = high + air;
  panel.rules.push_back({true, 0, ""});
  return panel;
}

}  // namespace

Section overhead_section(const Results& results, Palette& palette) {
  Section section{.id = "cost", .title = "Cost"};
  const auto settings = cost_settings(results, "best");
  if (settings.empty()) return section;
  const OverheadTimes timings = overhead_times(results, settings.front());
  Figure figure{.id = "overhead",
                .title = "Overhead of the encodings",
                .kind = Figure::Kind::kBars,
                .x = {.title = "More than without an encoding", .ticks = TickStyle::kPercent}};
  std::vector<std::pair<const char*, std::vector<Bar>>> panels;
  for (const Contrast& contrast : {Contrast{"forward pass, time", "forward", "forward_none"},
                                   {"training step, time", "training_step", "training_step_none"},
                                   {"forward pass, peak memory", "forward", "forward_none", true}})
    panels.emplace_back(contrast.title, bars_of(results, timings, contrast));
  std::vector<std::size_t> order;  // arms, from below, sorted by the first panel
  std::vector<const Arm*> rows;
  for (const auto& [title, bars] : panels) {
    for (const Bar& bar : bars) {
      if (std::find(order.begin(), order.end(), bar.arm) != order.end()) continue;
      order.push_back(bar.arm);
      rows.push_back(&results.arms[bar.arm]);
    }
  }
  figure.y_names = row_names(results, rows);
  for (const auto& [title, bars] : panels) {
    if (!bars.empty()) figure.panels.push_back(bars_panel(results, palette, title, bars, order, timings.repetitions));
  }
  if (figure.panels.empty()) return section;
  figure.caption = cat(
      "Time and memory by the cheapest exact route, beyond the time and memory of the same model without an encoding, ",
      support::with_commas(*timings.lengths.rbegin()), " tokens, ", settings.front().text(),
      other_settings_note(settings), "; median of ", timings.repetitions,
      " repetitions, line: quartiles. Sorted by the first panel; each panel has "
      "its own scale. Times are measured and differ from run to run.");
  figure.description = "Bar charts of the overhead of each encoding; the values are in the tables.";
  section.figures.push_back(std::move(figure));
  return section;
}

}  // namespace pe::report
