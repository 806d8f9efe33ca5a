// Costs of encodings: parameters, milliseconds, memory.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

struct ComponentTiming {
  std::vector<double> median, low, high;
  std::string status = "ok";
};

Cell timing_cell(const ComponentTiming* timing) {
  if (timing == nullptr || timing->median.empty()) {
    const std::string status = timing == nullptr || timing->status == "ok" ? "not_measured" : timing->status;
    return Cell::missing(mark_of(status), reason_of(status));
  }
  Cell cell = Cell::of_number(mean_of_finite(timing->median));
  if (cell.number) cell.interval = statistics::Interval{mean_of_finite(timing->low), mean_of_finite(timing->high)};
  return cell;
}

Table parameters_table(const Results& results) {
  Table table{.id = "parameters", .title = "Parameters and tables of the encodings"};
  table.columns = arm_columns(results);
  std::set<std::int64_t> lengths;
  struct ArmParameters {
    double own = NAN, share = NAN, total = NAN;
    std::string placement;
    std::map<std::int64_t, double> bytes;
  };
  std::map<std::size_t, ArmParameters> by_arm;
  each_row<schema::Parameters>(results, [&](std::size_t run, const schema::Parameters& row) {
    ArmParameters& own = by_arm[arm_of(results, run)];
    own.own = row.parameters;
    own.share = row.share;
    own.total = row.total;
    own.placement = row.placement;
    own.bytes[row.length] = schema::real_of(row.table_bytes);
    lengths.insert(row.length);
  });
  table.columns.insert(table.columns.end(),
                       {{.id = "parameters", .header = "Parameters", .style = NumberStyle::kCount},
                        {.id = "share", .header = "of the model, %", .style = NumberStyle::kPercent},
                        {.id = "placement", .header = "Placement", .text = true}});
  for (const std::int64_t length : lengths) {
    table.columns.push_back({.id = cat("bytes_", length),
                             .header = support::with_commas(length),
                             .group = "bytes of tables, length",
                             .style = NumberStyle::kCount});
  }
  for (const auto& [arm, own] : by_arm) {
    if (arm >= results.arms.size()) continue;
    Row row{.cells = arm_cells(results, results.arms[arm])};
    row.cells.insert(row.cells.end(),
                     {Cell::of_number(own.own), Cell::of_number(own.share), Cell::of_text(own.placement)});
    for (const std::int64_t length : lengths) {
      const auto found = own.bytes.find(length);
      row.cells.push_back(found != own.bytes.end() && std::isfinite(found->second)
                              ? Cell::of_number(found->second)
                              : Cell::missing("n/a", reason_of("na_positions")));
    }
    table.rows.push_back(std::move(row));
  }
  table.caption =
      "Exact counts of the instantiated models; tables and caches that remain after a pass of that many tokens.";
  return table;
}

/// The times of one path and setting by arm, length and component.
struct Timings {
  std::set<std::int64_t> lengths;
  std::map<std::tuple<std::size_t, std::int64_t, std::string>, ComponentTiming> timings;
  std::map<std::pair<std::size_t, std::int64_t>, std::vector<double>> peaks;
  double repetitions = 0;
  bool trains = false;  ///< a step was measured

  bool has(std::size_t arm) const {
    const auto first = timings.lower_bound({arm, 0, ""});
    return first != timings.end() && std::get<0>(first->first) == arm;
  }
  const ComponentTiming* find(std::size_t arm, std::int64_t length, const char* component) const {
    const auto found = timings.find({arm, length, component});
    return found == timings.end() ? nullptr : &found->second;
  }
};

Timings timings_of(const Results& results, const std::string& path, const CostSetting& setting) {
  Timings all;
  each_row<schema::Cost>(results, [&](std::size_t run, const schema::Cost& row) {
    if (row.path != path || setting_of(row) != setting) return;
    const std::size_t arm = arm_of(results, run);
    const std::int64_t length = row.length;
    all.lengths.insert(length);
    ComponentTiming& timing = all.timings[{arm, length, row.component}];
    if (row.status != "ok") {
      timing.status = row.status;
      return;
    }
    all.trains = all.trains || row.component == "training_step";
    timing.median.push_back(row.median_ms);
    timing.low.push_back(row.p25_ms);
    timing.high.push_back(row.p75_ms);
    if (row.component == "forward") all.peaks[{arm, length}].push_back(schema::real_of(row.peak_bytes));
    all.repetitions = row.reps;
  });
  return all;
}

void add_cost_columns(Table& table, std::int64_t length, bool trains) {
  const std::string group = cat(support::with_commas(length), " tokens");
  const auto column = [&](const char* id, const char* header, NumberStyle style) {
    table.columns.push_back({.id = cat(id, "_", length), .header = header, .group = group, .style = style});
  };
  column("encode", "encode, ms", NumberStyle::kPerplexity);
  column("attention", "attention, ms", NumberStyle::kPerplexity);
  column("overhead", "overhead, %", NumberStyle::kSignedPercent);
  column("forward", "forward, ms", NumberStyle::kPerplexity);
  column("total", "total overhead, %", NumberStyle::kSignedPercent);
  column("peak", "peak, bytes", NumberStyle::kTokens);
  if (!trains) return;
  column("step", "training step, ms", NumberStyle::kPerplexity);
  column("step_overhead", "step overhead, %", NumberStyle::kSignedPercent);
}

Cell ratio_cell(const Cell& a, const Cell& b, double minus) {
  if (!a.number || !b.number || *b.number <= 0)
    return Cell::missing(a.text.empty() ? "–" : a.text, a.reason.empty() ? "not measured" : a.reason);
  return Cell::of_number(*a.number / *b.number - minus);
}

void add_cost_cells(Row& row, const Timings& all, std::size_t arm, std::int64_t length) {
  const ComponentTiming* forward = all.find(arm, length, "forward");
  const auto timing = [&](const char* component) {  // a length without positions says so once, for all of its cells
    const ComponentTiming* own = all.find(arm, length, component);
    return timing_cell(own == nullptr && forward != nullptr && forward->status != "ok" ? forward : own);
  };
  const Cell encode = timing("encode"), attention = timing("attention"), pass = timing("forward"),
             none = timing("forward_none");
  row.cells.insert(row.cells.end(),
                   {encode, attention, ratio_cell(encode, attention, 0), pass, ratio_cell(pass, none, 1)});
  const auto peak = all.peaks.find({arm, length});
  row.cells.push_back(peak == all.peaks.end()
                          ? Cell::missing(pass.number ? "–" : pass.text, pass.number ? "not measured" : pass.reason)
                          : Cell::of_number(mean_of_finite(peak->second)));
  if (!all.trains) return;
  const Cell step = timing("training_step");
  row.cells.insert(row.cells.end(), {step, ratio_cell(step, timing("training_step_none"), 1)});
}

/// @param number  of the setting, from 1; 0: there is one
Table cost_table(const Results& results, const std::string& path, const CostSetting& setting, std::size_t number) {
  Table table{.id = cat("cost_", path),
              .title = path == "unfused" ? "Time of the encoding by itself" : "Time by the cheapest exact route"};
  if (number > 0) table.title += cat(": ", setting.text());
  if (number > 1) table.id += cat("_", number);
  table.columns = arm_columns(results);
  const Timings all = timings_of(results, path, setting);
  for (const std::int64_t length : all.lengths) add_cost_columns(table, length, all.trains);
  for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
    if (!all.has(arm)) continue;
    Row row{.cells = arm_cells(results, results.arms[arm])};
    for (const std::int64_t length : all.lengths) add_cost_cells(row, all, arm, length);
    table.rows.push_back(std::move(row));
  }
  table.caption =
      cat(path == "unfused"
              ? "All encodings through the same unfused path, which isolates what an encoding costs: "
              : "Each through its cheapest exact route, so that encodings without a fused kernel pay for that too: ",
          "milliseconds, median of ", all.repetitions, " repetitions, quartiles in brackets, mean over seeds, on ",
          setting.text(),
          ". Encode: attention with the encoding less attention without, "
          "which measurement noise can make negative; overhead: encode over attention, and of the whole pass over that "
          "without an encoding. Times are measured and differ from run to run.");
  return table;
}

}  // namespace

Section cost_section(const Results& results, Palette&) {
  Section section{.id = "cost", .title = "Cost"};
  if (has_table<schema::Parameters>(results)) section.tables.push_back(parameters_table(results));
  if (has_table<schema::Cost>(results)) {
    const auto settings = cost_settings(results);
    for (const char* path : {"unfused", "best"}) {
      for (std::size_t i = 0; i < settings.size(); ++i)
        section.tables.push_back(cost_table(results, path, settings[i], settings.size() > 1 ? i + 1 : 0));
    }
  }
  std::erase_if(section.tables, [](const Table& table) { return table.rows.empty(); });
  return section;
}

}  // namespace pe::report
