// Maps of attention: a picture for each arm and layer.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "report/sections/section.h"
#include "schema/probes.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

constexpr int kBins = 32;             // rows and columns of a map on the page; data/probe_map.csv has all
constexpr std::size_t kMostMaps = 9;  // panels
constexpr double kFaintest = -3;      // power of ten: smaller shares have the same color

/// Shares of a map in the bins of the page, mean over heads.
class PageMap {
 public:
  void add(const schema::ProbeMap& row) {
    const auto bin = [&](std::int64_t token) {
      return static_cast<std::size_t>(
          std::clamp<std::int64_t>(token * kBins / std::max<std::int64_t>(1, row.length), 0, kBins - 1));
    };
    const double queries = static_cast<double>(row.query_hi - row.query_lo);
    sums_[bin(row.query_lo)][bin(row.key_lo)] += row.share * queries;
    if (row.key_lo == 0) queries_[bin(row.query_lo)] += queries;
  }

  /// The first query is on top, the first key on the left.
  std::vector<HeatCell> cells() const {
    std::vector<HeatCell> cells;
    for (std::size_t query = 0; query < kBins; ++query) {
      if (queries_[query] == 0) continue;  // the text has fewer tokens
      for (std::size_t key = 0; key <= query; ++key) {
        const double share = sums_[query][key] / queries_[query];
        cells.push_back({.column = static_cast<int>(key),
                         .row = kBins - 1 - static_cast<int>(query),
                         .value = std::max(kFaintest, std::log10(std::max(share, 1e-300))),
                         .text = {}});
      }
    }
    return cells;
  }

 private:
  std::array<std::array<double, kBins>, kBins> sums_{};
  std::array<double, kBins> queries_{};  // times heads
};

/// The longest measured length, where encodings differ most; 0 without maps.
std::int64_t longest_map(const Results& results) {
  std::int64_t longest = 0;
  each_judged_row<schema::ProbeMap>(results, [&](std::size_t, const schema::ProbeMap& row) {
    if (row.layer) longest = std::max(longest, row.length);
  });
  return longest;
}

}  // namespace

Section attention_maps_section(const Results& results, Palette&) {
  Section section{.id = "attention", .title = "Attention by head"};
  const std::int64_t length = longest_map(results);
  if (length == 0) return section;
  Figure figure{.id = "attention_maps",
                .title = "Maps of attention",
                .kind = Figure::Kind::kHeatMap,
                .x = {.title = "Key"},
                .y = {.title = "Query"},
                .columns = 3,
                .heat_low = kFaintest,
                .heat_high = 0,
                .heat_title = "log₁₀"};
  std::size_t left_out = 0;
  for (const Arm& arm : results.arms) {
    std::map<std::int64_t, PageMap> maps;
    each_judged_row<schema::ProbeMap>(results, [&](std::size_t run, const schema::ProbeMap& row) {
      if (run == arm.runs.front() && row.length == length && row.layer && row.head) maps[*row.layer].add(row);
    });
    for (const auto& [layer, map] : maps) {
      if (figure.panels.size() == kMostMaps) {
        ++left_out;
      } else {
        figure.panels.push_back({.title = cat(arm_name(arm, has_variants(results)), ", layer ", layer),
                                 .cells = map.cells(),
                                 .encoding = arm.encoding,
                                 .variant = arm.variant});
      }
    }
  }
  for (std::int64_t bin = 0; bin < kBins; ++bin) figure.x_names.push_back(cat((bin * length + kBins - 1) / kBins));
  figure.y_names.assign(figure.x_names.rbegin(), figure.x_names.rend());
  figure.caption =
      cat("Share of a query's attention to a range of keys, as a power of ten (-1: a tenth), at ",
          support::with_commas(length), " tokens. Mean over heads and texts; the first seed of each model.",
          left_out > 0 ? cat(" ", left_out, " more maps, s") : " S",
          "ingle heads and smaller ranges are in data/probe_map.csv.");
  figure.description = "Heat maps of queries by keys, one for each model and layer.";
  section.figures.push_back(std::move(figure));
  return section;
}

}  // namespace pe::report
