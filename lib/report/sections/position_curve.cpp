// Loss by position in a text: what more context brings, and from which position on a model fails.
#include <algorithm>
#include <cmath>

#include "report/sections/section.h"
#include "schema/language_modelling.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

struct Bin {
  double low = 0, high = 0;
  std::map<std::string, std::pair<double, double>> seeds;  // seed → loss, its standard error over documents
};

std::map<double, Bin> bins_of(const Results& results, const Arm& arm, double& documents) {
  std::map<double, Bin> bins;
  const std::set<std::string> unjudged = unjudged_texts<schema::LmPosition>(results);
  each_row<schema::LmPosition>(results, [&](std::size_t run, const schema::LmPosition& row) {
    if (unjudged.count(row.corpus) != 0) return;
    if (row.bins != "log" || std::find(arm.runs.begin(), arm.runs.end(), run) == arm.runs.end()) return;
    Bin& bin = bins[row.bin_lo];
    bin.low = row.bin_lo;
    bin.high = row.bin_hi;
    bin.seeds[results.runs[run].seed] = {row.nll_mean, row.se};
    documents = std::max(documents, static_cast<double>(row.n));
  });
  return bins;
}

const char* band_words(std::size_t fewest_seeds, std::size_t most_seeds) {
  if (most_seeds == 1) return "One seed; band: 95 % over documents, the noise of training is unknown. ";
  if (fewest_seeds > 1) return "Thick: mean over seeds; band: 95 % t interval over seeds, from three on. ";
  return "Thick: mean over seeds; band: 95 % t interval over seeds, from three on; of models with one seed, 95 % over "
         "documents. ";
}

}  // namespace

Section position_curve_section(const Results& results, Palette& palette) {
  Section section{.id = "perplexity", .title = "Perplexity against context length"};
  if (!has_table<schema::LmPosition>(results)) return section;
  Figure figure{.id = "loss_position",
                .title = "Loss by position in the text",
                .x = {.title = "Position, tokens", .scale = Scale::kLog2, .ticks = TickStyle::kCount},
                .y = {.title = "Nats per token, lower is better"}};
  double documents = 0, lowest = INFINITY, highest = 0;
  std::size_t fewest_seeds = 0, most_seeds = 0;
  for (const std::string& variant : results.variants) {
    Panel panel{.title = has_variants(results) ? variant : "", .variant = variant};
    add_training_rules(panel, results, variant);
    for (const Arm& arm : results.arms) {
      if (arm.variant != variant) continue;
      Series main{
          .name = arm.encoding, .role = Series::Role::kLine, .look = palette.look(arm.encoding), .variant = variant};
      std::map<std::string, Series> seeds;
      for (const auto& [begin, bin] : bins_of(results, arm, documents)) {
        if (bin.seeds.size() != arm.runs.size() || bin.high <= bin.low) continue;
        const double x =
            std::sqrt(std::max(1.0, bin.low) * std::max(1.0, bin.high - 1));  // the middle of the bin on the axis
        std::vector<double> losses;
        for (const auto& [seed, loss] : bin.seeds) {
          losses.push_back(loss.first);
          Series& own = seeds
                            .try_emplace(seed, Series{.name = arm.encoding,
                                                      .seed = seed,
                                                      .role = Series::Role::kSeed,
                                                      .look = main.look,
                                                      .labelled = false,
                                                      .variant = variant})
                            .first->second;
          own.points.push_back({.x = x, .y = loss.first});
        }
        const statistics::SeedSummary summary = statistics::summarise_seeds(losses);
        Point point{.x = x, .y = summary.mean, .n = static_cast<double>(losses.size())};
        const double half =
            losses.size() == 1 ? statistics::kNormal95 * bin.seeds.begin()->second.second : summary.half_width;
        if (std::isfinite(half)) {
          point.low = summary.mean - half;
          point.high = summary.mean + half;
        }
        if (std::isfinite(summary.mean)) {
          lowest = std::min(lowest, summary.mean);
          highest = std::max(highest, summary.mean);
        }
        main.points.push_back(point);
        fewest_seeds = fewest_seeds == 0 ? losses.size() : std::min(fewest_seeds, losses.size());
        most_seeds = std::max(most_seeds, losses.size());
      }
      if (main.points.empty()) continue;
      if (seeds.size() == 2) {
        for (auto& [seed, own] : seeds) panel.series.push_back(std::move(own));
      }
      panel.series.push_back(std::move(main));
    }
    if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
  }
  if (figure.panels.empty()) return section;
  if (highest > lowest + 4) figure.y.high = lowest + 4;  // a model that explodes would flatten all others
  figure.caption = cat("Mean over ", format_number(documents, NumberStyle::kCount),
                       " documents of the loss in bins of positions, edges at powers of two. ",
                       band_words(fewest_seeds, most_seeds), training_sentence(results));
  figure.description = cat("Line chart of loss against position for ", support::join(results.encodings, ", "),
                           "; values in data/figure_loss_position.csv.");
  section.figures.push_back(std::move(figure));
  return section;
}

}  // namespace pe::report
