// Validation loss at the end of training against size and compute.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/results/training_curves.h"
#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

struct End {
  double parameters = 0, flops = 0, loss = 0;
  std::string setting;  ///< training length and validation: a line joins the sizes of one
};

/// FLOPs of a training from its first step, including its trunk before the fork.
double flops_of(const std::vector<const Curve*>& curves, const Curve& curve) {
  const double rate = flops_per_token(curve), end = curve.validation.back().tokens;
  const Curve* trunk = trunk_of(curves, curve);
  if (!trunk) return end * rate;
  const double fork = fork_tokens_of(curve, *trunk);
  return fork * flops_per_token(*trunk) + (end - fork) * rate;
}

/// The distinct values, those within 5 % above one counted with it.
std::size_t distinct_count(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::size_t places = 0;
  double last = -1;
  for (const double value : values) {
    if (places == 0 || value > last * 1.05) ++places, last = value;
  }
  return places;
}

/// Single trainings, and their means over seeds as a line for each setting.
void add_encoding(Panel& panel, const std::string& encoding, const Look& look,
                  const std::map<std::string, std::vector<End>>& variants, double End::*of) {
  std::map<std::string, Series> lines;  // by setting
  Series seeds{.name = encoding, .role = Series::Role::kPoints, .look = look, .labelled = false};
  for (const auto& [variant, list] : variants) {
    std::vector<double> losses, xs;
    for (const End& end : list) {
      if (!std::isfinite(end.*of)) continue;
      losses.push_back(end.loss);
      xs.push_back(end.*of);
      seeds.points.push_back({.x = end.*of, .y = end.loss});
    }
    if (losses.empty()) continue;
    const statistics::SeedSummary summary = statistics::summarise_seeds(losses);
    Point point{.x = mean_of_finite(xs), .y = summary.mean, .n = static_cast<double>(losses.size())};
    if (std::isfinite(summary.half_width)) {
      point.low = summary.mean - summary.half_width;
      point.high = summary.mean + summary.half_width;
    }
    lines[list.front().setting].points.push_back(point);
  }
  const auto by_x = [](const Point& a, const Point& b) { return a.x < b.x; };
  std::stable_sort(seeds.points.begin(), seeds.points.end(), by_x);
  if (lines.empty()) return;
  panel.series.push_back(std::move(seeds));
  for (auto& [setting, line] : lines) {
    std::stable_sort(line.points.begin(), line.points.end(), by_x);
    line.name = encoding;
    line.role = Series::Role::kMain;
    line.look = look;
    line.whiskers = true;
    panel.series.push_back(std::move(line));
  }
}

/// The name of data without one: the first digits of its first content digest.
std::string digits_of(const std::string& data) {
  const auto quote = data.find('"');
  return quote == std::string::npos ? "" : cat("data ", data.substr(quote + 1, 12));
}

/// The ends of trainings on the same data.
struct OnData {
  std::string name;
  std::map<std::string, std::map<std::string, std::vector<End>>> ends;  // encoding → variant → seeds
};

/// By the name of the data, in order of first use. Losses on other data are no comparison.
std::vector<OnData> ends_by_data(const Results& results, const std::vector<const Curve*>& curves,
                                 const std::set<std::pair<std::string, std::string>>& diverged) {
  std::vector<std::pair<std::string, OnData>> all;
  for (const Curve* curve : curves) {
    if (curve->diverged || curve->validation.empty() || !curve->run.facts.contains("parameters") ||
        !curve->run.facts["parameters"].is_number())
      continue;
    const End end{curve->run.facts["parameters"].get<double>(), flops_of(curves, *curve), curve->validation.back().loss,
                  cat(curve->run.train_length, " ", validation_windows(*curve))};
    if (!std::isfinite(end.loss) || diverged.count({curve->run.encoding, curve->run.variant}) != 0) continue;
    const std::string name = data_name(results, *curve, digits_of(curve->data));
    auto own = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.first == name; });
    if (own == all.end()) own = all.insert(all.end(), {name, {name, {}}});
    own->second.ends[curve->run.encoding][curve->run.variant].push_back(end);
  }
  std::vector<OnData> ends;
  for (auto& [digest, own] : all) ends.push_back(std::move(own));
  return ends;
}

/// Whether models differ in a size that all of them have.
bool differ_in(const OnData& data, double End::*of) {
  std::vector<double> values;
  for (const auto& [encoding, variants] : data.ends) {
    for (const auto& [variant, list] : variants) {
      for (const End& end : list) values.push_back(end.*of);
    }
  }
  return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }) &&
         distinct_count(std::move(values)) > 1;
}

}  // namespace

Section scaling_section(const Results& results, Palette& palette) {
  Section section{.id = "loss", .title = "Training"};
  const auto curves = distinct(results.curves);
  std::set<std::pair<std::string, std::string>> diverged;  // encoding and variant: the rest of their seeds is no mean
  for (const Curve* curve : curves) {
    if (curve->diverged) diverged.emplace(curve->run.encoding, curve->run.variant);
  }
  const std::vector<OnData> ends = ends_by_data(results, curves, diverged);
  const auto figure_over = [&](double End::*of, const char* id, const char* title, const char* axis) {
    Figure figure{.id = id,
                  .title = title,
                  .x = {.title = axis, .scale = Scale::kLog10, .ticks = TickStyle::kCount},
                  .y = {.title = "Validation loss, nats per token, lower is better"}};
    for (const OnData& data : ends) {
      if (!differ_in(data, of)) continue;
      Panel panel{.title = ends.size() > 1 ? data.name : ""};
      for (const std::string& encoding : results.encodings) {
        const auto own = data.ends.find(encoding);
        if (own != data.ends.end()) add_encoding(panel, encoding, palette.look(encoding), own->second, of);
      }
      figure.panels.push_back(std::move(panel));
    }
    if (figure.panels.empty()) return;
    figure.caption =
        cat("Last validation of each training, at its training length; small marks: single seeds; line: means over "
            "seeds, with their 95 % t interval from three on",
            diverged.empty() ? "" : ", without models of which a seed diverged",
            ends.size() > 1 ? "; a panel for each training data, where its models differ" : "",
            ". Lines join trainings at the same length and are no fitted law. ", training_sentence(results));
    figure.description = cat("Line chart of validation loss against ", axis, ".");
    section.figures.push_back(std::move(figure));
  };
  figure_over(&End::parameters, "loss_parameters", "Loss against parameters", "Parameters");
  figure_over(&End::flops, "loss_flops", "Loss against compute", "Training FLOPs, estimated");
  return section;
}

}  // namespace pe::report
