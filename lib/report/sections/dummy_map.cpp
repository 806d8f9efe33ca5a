// Structured sequences at a glance: loss by depth and epochs, a map for each encoding and network.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

}  // namespace

Section dummy_map_section(const Results& results, Palette&) {
  Section section{.id = "dummy", .title = "Structured sequences"};
  std::vector<std::string> modes;
  for (const DummyCell& cell : results.dummy) {
    if (std::find(modes.begin(), modes.end(), cell.mode) == modes.end()) modes.push_back(cell.mode);
  }
  for (const std::string& mode : modes) {
    std::map<std::pair<std::string, std::string>, std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>>>
        maps;  // network, encoding → depth, epochs
    std::set<std::int64_t> depths, epochs;
    std::size_t fewest = 0, most = 0;
    for (const DummyCell& cell : results.dummy) {
      if (cell.mode != mode) continue;
      maps[{cell.network, results.runs[cell.run].encoding}][{cell.depth, cell.epochs}].push_back(cell.headline);
      depths.insert(cell.depth);
      epochs.insert(cell.epochs);
    }
    if (depths.size() < 2 && epochs.size() < 2) continue;  // one number is no map
    Figure figure{.id = cat("dummy_", mode, "_map"),
                  .title = cat("Loss by depth and epochs, mode ", mode),
                  .kind = Figure::Kind::kHeatMap,
                  .x = {.title = "Epochs"},
                  .y = {.title = "Layers"},
                  .columns = 3};
    const std::vector<std::int64_t> columns(epochs.begin(), epochs.end()), rows(depths.begin(), depths.end());
    for (const std::int64_t count : columns) figure.x_names.push_back(cat(count));
    for (const std::int64_t depth : rows) figure.y_names.push_back(cat(depth));
    double low = INFINITY, high = -INFINITY;
    for (const auto& [of, cells] : maps) {
      Panel panel{.title = maps.size() > 1 ? cat(of.second, ", ", in_words(of.first)) : of.second,
                  .encoding = of.second};
      for (const auto& [at, losses] : cells) {
        const double mean = statistics::summarise_seeds(losses).mean;
        fewest = fewest == 0 ? losses.size() : std::min(fewest, losses.size());
        most = std::max(most, losses.size());
        HeatCell cell{
            .column = static_cast<int>(std::find(columns.begin(), columns.end(), at.second) - columns.begin()),
            .row = static_cast<int>(std::find(rows.begin(), rows.end(), at.first) - rows.begin()),
            .value = std::isfinite(mean) ? mean : kUnknown,
            .text = std::isfinite(mean) ? heat_text(mean) : "n/a"};
        if (std::isfinite(mean)) {
          low = std::min(low, mean);
          high = std::max(high, mean);
        }
        panel.cells.push_back(std::move(cell));
      }
      figure.panels.push_back(std::move(panel));
    }
    figure.heat_low = std::isfinite(low) ? std::floor(10 * low) / 10 : 0;
    figure.heat_high = std::isfinite(high) ? std::max(figure.heat_low + 0.1, std::ceil(10 * high) / 10) : 1;
    figure.heat_title = "nats";
    figure.caption =
        cat("Test loss in nats per target, mean over ",
            fewest == most ? cat(most, most == 1 ? " seed" : " seeds") : cat(fewest, " to ", most, " seeds"),
            "; one colour scale for all panels. Panels of one network may be compared with each other.");
    figure.description =
        "Heat maps of loss by number of layers and of epochs, one for each encoding and network; the values are in the "
        "table.";
    section.figures.push_back(std::move(figure));
  }
  return section;
}

}  // namespace pe::report
