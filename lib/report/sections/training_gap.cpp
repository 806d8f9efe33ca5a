// The honest version of loss curves: what each training loses against the baseline's at the same step of the same data
// and seed.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/results/training_curves.h"
#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

const Curve* partner_of(const std::vector<const Curve*>& curves, const Curve& curve, const std::string& baseline) {
  for (const Curve* other : curves) {
    if (other->run.encoding == baseline && other->run.variant == curve.run.variant &&
        other->run.seed == curve.run.seed && other->first_step == curve.first_step && other != &curve)
      return other;
  }
  return nullptr;
}

/// The mean over seeds, with its t interval from three seeds on.
std::vector<Point> banded(const std::vector<std::vector<Point>>& seeds) {
  std::map<double, std::vector<double>> at;
  for (const auto& points : seeds) {
    for (const Point& point : points) at[point.x].push_back(point.y);
  }
  std::vector<Point> mean;
  for (const auto& [x, values] : at) {
    if (values.size() != seeds.size()) continue;
    const statistics::SeedSummary summary = statistics::summarise_seeds(values);
    Point point{.x = x, .y = summary.mean, .n = static_cast<double>(values.size())};
    if (std::isfinite(summary.half_width)) {
      point.low = summary.mean - summary.half_width;
      point.high = summary.mean + summary.half_width;
    }
    mean.push_back(point);
  }
  return mean;
}

/// Adds the lines of an encoding to a panel. @return its number of seeds
std::size_t add_gaps(Panel& panel, const Results& results, const std::vector<const Curve*>& curves,
                     const std::string& encoding, std::size_t half, Palette& palette) {
  std::vector<std::vector<Point>> seeds;
  std::vector<std::string> names;
  std::map<std::string, double> units;
  for (const Curve* curve : curves_of(curves, encoding, panel.variant)) {
    const Curve* base = partner_of(curves, *curve, results.baseline);
    if (!base) continue;
    const auto gap = paired_gap(*curve, *base);
    if (gap.size() < 2) continue;
    if (units.empty()) units = units_of(results, *curve);
    seeds.push_back(smoothed(gap, half));
    names.push_back(curve->run.seed);
  }
  if (seeds.empty()) return 0;
  const Look look = palette.look(encoding);
  for (std::size_t s = 0; s < seeds.size() && seeds.size() == 2; ++s) {
    panel.series.push_back({.name = encoding,
                            .seed = names[s],
                            .role = Series::Role::kSeed,
                            .look = look,
                            .points = seeds[s],
                            .labelled = false,
                            .variant = panel.variant,
                            .units = units});
  }
  panel.series.push_back({.name = encoding,
                          .role = Series::Role::kLine,
                          .look = look,
                          .points = banded(seeds),
                          .variant = panel.variant,
                          .units = units});
  return seeds.size();
}

/// The range once the steep beginning, where differences are of speed alone, is over.
void set_range(Figure& figure, double last) {
  std::vector<double> settled;
  for (const Panel& panel : figure.panels) {
    for (const Series& series : panel.series) {
      for (const Point& point : series.points) {  // bands of few seeds are wide at first
        if (point.x >= 0.1 * last) settled.push_back(point.y);
        if (point.x >= 0.3 * last && std::isfinite(point.low)) settled.insert(settled.end(), {point.low, point.high});
      }
    }
  }
  if (settled.empty()) return;
  const auto [low, high] = std::minmax_element(settled.begin(), settled.end());
  const double air = std::max(0.15 * (*high - *low), 0.005);
  figure.y.low = std::min(*low - air, -air);
  figure.y.high = std::max(*high + air, air);
}

}  // namespace

Section training_gap_section(const Results& results, Palette& palette) {
  Section section{.id = "loss", .title = "Training"};
  const auto curves = distinct(results.curves);
  const std::vector<std::string> variants = variants_of(curves);
  std::size_t longest = 0, most_seeds = 0;
  double last = 0;
  for (const Curve* curve : curves) {
    longest = std::max(longest, curve->train.size());
    if (!curve->train.empty()) last = std::max(last, curve->train.back().tokens);
  }
  const std::size_t half = longest / 50;
  Figure figure{.id = "training_gap",
                .title = cat("Training loss compared with ", results.baseline),
                .x = {.title = "Tokens seen", .ticks = TickStyle::kCount},
                .y = {.title = cat("Loss minus loss of ", results.baseline, ", nats per token, lower is better"),
                      .scale = Scale::kSigned}};
  for (const std::string& variant : variants) {
    Panel panel{.title = variants.size() > 1 ? variant : "", .variant = variant};
    panel.rules.push_back({false, 0, ""});
    for (const std::string& encoding : results.encodings) {
      if (encoding == results.baseline) continue;
      most_seeds = std::max(most_seeds, add_gaps(panel, results, curves, encoding, half, palette));
    }
    if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
  }
  if (figure.panels.empty()) return section;
  set_range(figure, last);
  add_units(figure, results);
  figure.caption =
      cat("Training loss minus the loss of ", results.baseline, " at the same step, same data order and same seed; ",
          smoothing_words(half), "; axis linear within ±0.01 nats and logarithmic beyond. ",
          most_seeds >= 3   ? "Lines: mean over seeds; bands: 95 % t interval over seeds, from three on. "
          : most_seeds == 2 ? "Thick: mean over two seeds; thin: single seeds. "
                            : "One seed: the noise of training is unknown. ",
          training_sentence(results));
  figure.description = cat("Line chart of the paired difference of training loss from ", results.baseline, ".");
  section.figures.push_back(std::move(figure));
  return section;
}

}  // namespace pe::report
