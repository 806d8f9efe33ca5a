// What an encoding costs beside none: bars of time and memory, sorted.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/sections/section.h"
#include "schema/models.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

struct TimesAndPeak {
  std::vector<double> median, low, high, peak;
};

}  // namespace

Section overhead_section(const Results& results, Palette& palette) {
  Section section{.id = "cost", .title = "Cost"};
  if (!has_table<schema::Cost>(results)) return section;
  std::map<std::tuple<std::size_t, std::int64_t, std::string>, TimesAndPeak> timings;  // arm, length, component
  std::set<std::int64_t> lengths;
  std::set<std::string> devices;
  double repetitions = 0;
  each_row<schema::Cost>(results, [&](std::size_t run, const schema::Cost& row) {
    if (row.path != "best" || row.status != "ok") return;
    TimesAndPeak& timing = timings[{arm_of(results, run), row.length, row.component}];
    timing.median.push_back(row.median_ms);
    timing.low.push_back(row.p25_ms);
    timing.high.push_back(row.p75_ms);
    timing.peak.push_back(schema::real_of(row.peak_bytes));
    lengths.insert(row.length);
    devices.insert(cat(row.device, ", ", row.dtype));
    repetitions = row.reps;
  });
  if (lengths.empty()) return section;

  struct Bar {
    std::size_t arm;
    double share, low, high;
  };
  const auto bars_of = [&](std::int64_t length, const std::string& with, const std::string& without, bool memory) {
    std::vector<Bar> bars;
    for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
      const auto a = timings.find({arm, length, with}), b = timings.find({arm, length, without});
      if (a == timings.end() || b == timings.end()) continue;
      const double base = mean_of_finite(memory ? b->second.peak : b->second.median);
      if (!(base > 0)) continue;
      const auto relative = [&](const std::vector<double>& values) { return mean_of_finite(values) / base - 1; };
      Bar bar{arm, relative(memory ? a->second.peak : a->second.median), kUnknown, kUnknown};
      if (!memory) {
        bar.low = relative(a->second.low);
        bar.high = relative(a->second.high);
      }
      if (std::isfinite(bar.share)) bars.push_back(bar);
    }
    std::stable_sort(bars.begin(), bars.end(),
                     [](const Bar& x, const Bar& y) { return x.share > y.share; });  // the cheapest on top
    return bars;
  };

  Figure figure{.id = "overhead",
                .title = "Overhead of the encodings",
                .kind = Figure::Kind::kBars,
                .x = {.title = "More than without an encoding", .ticks = TickStyle::kPercent}};
  const std::int64_t length = *lengths.rbegin();
  const std::vector<std::tuple<std::string, std::string, std::string, bool>> panels = {
      {"forward pass, time", "forward", "forward_none", false},
      {"training step, time", "training_step", "training_step_none", false},
      {"forward pass, peak memory", "forward", "forward_none", true}};
  std::vector<std::size_t> order;  // arms, from below: that of the first panel
  for (const auto& [title, with, without, memory] : panels) {
    for (const Bar& bar : bars_of(length, with, without, memory)) {
      if (std::find(order.begin(), order.end(), bar.arm) == order.end()) order.push_back(bar.arm);
    }
  }
  std::vector<const Arm*> rows;
  for (const std::size_t arm : order) rows.push_back(&results.arms[arm]);
  figure.y_names = row_names(results, rows);
  for (const auto& [title, with, without, memory] : panels) {
    Panel panel{.title = title};
    double low = 0, high = 0;
    for (const Bar& bar : bars_of(length, with, without, memory)) {
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
    if (panel.series.empty()) continue;
    const double air = std::max(0.06 * (high - low), 0.005);
    panel.x_low = low < 0 ? low - air : 0;
    panel.x_high = high + air;
    panel.rules.push_back({true, 0, ""});
    figure.panels.push_back(std::move(panel));
  }
  if (figure.panels.empty()) return section;
  figure.caption = cat("Time and memory by the cheapest exact route over those of the same model without an encoding, ",
                       support::with_commas(length), " tokens, ", support::join({devices.begin(), devices.end()}, "; "),
                       "; median of ", repetitions,
                       " repetitions, line: quartiles. Sorted by the first panel; each panel has "
                       "its own scale. Times are measured and differ from run to run.");
  figure.description = "Bar charts of the overhead of each encoding; the values are in the tables.";
  section.figures.push_back(std::move(figure));
  return section;
}

}  // namespace pe::report
