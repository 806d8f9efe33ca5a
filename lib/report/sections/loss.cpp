// Loss against tokens: trunks, the branches that fork off them, and what is left at the end of each.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "report/results/training_curves.h"
#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

constexpr std::array<std::pair<Dash, const char*>, 3> kBranchDashes{
    {{Dash::kDashed, "dashed"}, {Dash::kDotted, "dotted"}, {Dash::kDashDotted, "dash-dotted"}}};

bool drops_encoding(const Curve& branch, const Curve* trunk) {
  if (branch.first_step == 0 || !branch.run.facts.contains("encoding")) return false;
  if (trunk && trunk->run.facts.contains("encoding"))
    return branch.run.facts["encoding"] != trunk->run.facts["encoding"];
  const Json& encoding = branch.run.facts["encoding"];
  return encoding.is_object() && encoding.value("kind", "") == "none" && branch.run.encoding != "none";
}

Figure loss_figure(const Results& results, const std::vector<const Curve*>& curves, Palette& palette) {
  Figure figure{.id = "loss_tokens",
                .title = "Loss against training tokens",
                .x = {.title = "Tokens seen", .ticks = TickStyle::kCount},
                .y = {.title = "Loss, nats per token, lower is better"}};
  figure.x.low = 0;
  std::vector<std::string> variants;
  double last = 0;
  std::size_t longest = 0;
  for (const Curve* curve : curves) {
    if (curve->first_step > 0 && std::find(variants.begin(), variants.end(), curve->run.variant) == variants.end())
      variants.push_back(curve->run.variant);
    for (const auto* list : {&curve->train, &curve->validation}) {
      for (const CurvePoint& point : *list) last = std::max(last, point.tokens);
    }
    longest = std::max(longest, curve->train.size());
  }
  const std::size_t half = longest / 100;
  Panel training{.title = half > 0 ? "Training, smoothed" : "Training"}, validation{.title = "Validation, later half"};
  double early = 0;  // what the loss is once the steep beginning is over
  bool drops = false;

  std::vector<std::pair<std::string, std::string>> arms;
  for (const Curve* curve : curves) {
    const std::pair arm{curve->run.encoding, curve->run.variant};
    if (std::find(arms.begin(), arms.end(), arm) == arms.end()) arms.push_back(arm);
  }
  for (const auto& [encoding, variant] : arms) {
    std::vector<std::vector<Point>> train_seeds, validation_seeds;
    std::vector<std::string> seeds;
    Look look = palette.look(encoding);
    std::map<std::string, double> units;
    bool branch = false;
    for (const Curve* curve : curves) {
      if (curve->run.encoding != encoding || curve->run.variant != variant) continue;
      if (units.empty()) units = units_of(results, *curve);
      std::vector<Point> train = smoothed(curve->train, half), checks = plain(curve->validation);
      const Curve* trunk = trunk_of(curves, *curve);
      branch = branch || curve->first_step > 0;
      if (trunk) {
        const double fork = fork_tokens_of(*curve, *trunk);
        train = from_fork(std::move(train), smoothed(trunk->train, half), fork);
        checks = from_fork(std::move(checks), plain(trunk->validation), fork);
      }
      if (drops_encoding(*curve, trunk)) {
        drops = true;
        if (!train.empty() && seeds.empty())
          training.flags.push_back({train.front().x, train.front().y, "", look.colour});
        if (!checks.empty() && seeds.empty() && trunk)
          validation.flags.push_back({checks.front().x, checks.front().y, "", look.colour});
      }
      if (seeds.empty() && curves.size() <= 6 && half > 0) {
        training.series.push_back({.name = encoding,
                                   .seed = curve->run.seed,
                                   .role = Series::Role::kRaw,
                                   .look = look,
                                   .points = plain(curve->train),
                                   .labelled = false,
                                   .variant = variant,
                                   .units = units});
      }
      for (const Point& point : train) {
        if (point.x >= 0.04 * last && !branch) {
          early = std::max(early, std::isfinite(point.y) ? point.y : 0);
          break;
        }
      }
      train_seeds.push_back(std::move(train));
      validation_seeds.push_back(std::move(checks));
      seeds.push_back(curve->run.seed);
    }
    if (branch) {
      const auto index = std::find(variants.begin(), variants.end(), variant) - variants.begin();
      look.dash = kBranchDashes[static_cast<std::size_t>(index) % kBranchDashes.size()].first;
    }
    const auto add = [&](Panel& panel, const std::vector<std::vector<Point>>& lines, Series::Role role) {
      if (lines.size() > 1) {
        for (std::size_t s = 0; s < lines.size(); ++s) {
          panel.series.push_back({.name = encoding,
                                  .seed = seeds[s],
                                  .role = Series::Role::kSeed,
                                  .look = look,
                                  .points = lines[s],
                                  .labelled = false,
                                  .variant = variant,
                                  .units = units});
        }
      }
      Series main{
          .name = encoding, .role = role, .look = look, .points = mean_of(lines), .variant = variant, .units = units};
      if (!main.points.empty()) panel.series.push_back(std::move(main));
    };
    add(training, train_seeds, Series::Role::kLine);
    add(validation, validation_seeds, Series::Role::kMain);
  }

  double lowest = INFINITY;
  for (const Series& series : training.series) {
    for (const Point& point : series.points) {
      if (std::isfinite(point.y)) lowest = std::min(lowest, point.y);
    }
  }
  if (early > lowest) figure.y.high = early + 0.1 * (early - lowest);
  if (!training.series.empty()) figure.panels.push_back(std::move(training));

  // The zoom has a range of its own, where final differences can be seen.
  double low = INFINITY, high = -INFINITY;
  std::set<double> places;
  for (const Series& series : validation.series) {
    for (const Point& point : series.points) {
      if (point.x < 0.5 * last || !std::isfinite(point.y)) continue;
      places.insert(point.x);
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
  }
  constexpr std::size_t kFewestOfACurve = 3;
  const bool validated = places.size() >= kFewestOfACurve;
  if (validated) {
    const double air = std::max(0.06 * (high - low), 0.002);
    validation.x_low = 0.5 * last;
    validation.x_high = 1.02 * last;
    validation.y_low = low - air;
    validation.y_high = high + air;
    figure.panels.push_back(std::move(validation));
  }
  figure.x.high = 1.02 * last;
  const std::string unit = add_units(figure, results.x_unit);
  figure.id = cat("loss_", unit);
  figure.title = cat("Loss against training ", unit);
  std::string branches;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    branches += cat(i == 0 ? "branches, drawn from their fork: " : ", ", variants[i].empty() ? "branch" : variants[i],
                    " ", kBranchDashes[i % kBranchDashes.size()].second);
  }
  figure.caption =
      cat(validated ? "Left: training" : "Training", " loss, ", smoothing_words(half),
          validated ? cat("; right: validation loss, later half of the ", unit, ", on its own scale. ") : ". ",
          join_as_sentence({"Thick: mean over seeds", "thin: single seeds", branches,
                            drops ? "× marks where the encoding is dropped" : ""}),
          " ", training_sentence(results));
  figure.description = cat("Line charts of loss against ", unit, " for ", support::join(results.encodings, ", "),
                           ". Final values are in the table.");
  return figure;
}

Table loss_table(const Results& results, const std::vector<const Curve*>& curves) {
  Table table{.id = "final_loss", .title = "Validation loss at the end of training"};
  std::vector<std::string> variants;
  for (const Curve* curve : curves) {
    if (std::find(variants.begin(), variants.end(), curve->run.variant) == variants.end())
      variants.push_back(curve->run.variant);
  }
  table.columns = {{.id = "encoding", .header = "Encoding", .text = true}};
  if (variants.size() > 1) table.columns.push_back({.id = "variant", .header = "Variant", .text = true});
  table.columns.insert(
      table.columns.end(),
      {{.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount},
       {.id = "tokens", .header = "Tokens", .style = NumberStyle::kTokens},
       {.id = "parameters", .header = "Parameters", .style = NumberStyle::kTokens},
       {.id = "loss", .header = "nats/token", .style = NumberStyle::kNats, .direction = Direction::kLowerIsBetter},
       {.id = "bpb", .header = "bits/byte", .style = NumberStyle::kNats, .direction = Direction::kLowerIsBetter}});
  for (const std::string& variant : variants) {
    bool first = !table.rows.empty();
    for (const std::string& encoding : results.encodings) {
      std::vector<double> losses, bits;
      double tokens = 0, parameters = 0;
      std::string bad;
      std::size_t seeds = 0;
      for (const Curve* curve : curves) {
        if (curve->run.encoding != encoding || curve->run.variant != variant) continue;
        ++seeds;
        if (curve->run.facts.contains("parameters") && curve->run.facts["parameters"].is_number())
          parameters = curve->run.facts["parameters"].get<double>();
        if (curve->diverged)
          bad = cat("the training with seed ", curve->run.seed, " diverged");
        else if (curve->validation.empty())
          bad = "no validation was logged";
        if (!bad.empty()) continue;
        losses.push_back(curve->validation.back().loss);
        bits.push_back(curve->validation.back().bpb);
        tokens = curve->validation.back().tokens;
      }
      if (seeds == 0) continue;
      Row row{.cells = {Cell::of_text(encoding)}, .rule_above = first};
      first = false;
      if (variants.size() > 1) row.cells.push_back(Cell::of_text(variant));
      row.cells.push_back(Cell::of_number(static_cast<double>(seeds)));
      row.cells.push_back(tokens > 0 ? Cell::of_number(tokens) : Cell::missing("–", bad.empty() ? "not logged" : bad));
      row.cells.push_back(parameters > 0 ? Cell::of_number(parameters)
                                         : Cell::missing("–", "the artifact does not say"));
      for (const auto* values : {&losses, &bits}) {
        if (!bad.empty()) {
          row.cells.push_back(Cell::missing(bad.find("diverged") != std::string::npos ? "diverged" : "–", bad));
          continue;
        }
        const statistics::SeedSummary summary = statistics::summarise_seeds(*values);
        Cell cell = Cell::of_number(summary.mean);
        if (cell.number && std::isfinite(summary.half_width))
          cell.half_width = summary.half_width;
        else if (cell.number && values->size() == 2)
          cell.parts = *values;
        row.cells.push_back(std::move(cell));
      }
      table.rows.push_back(std::move(row));
    }
  }
  table.caption =
      cat("Last validation of each training, at the training length; a claim about longer contexts needs parity here "
          "first. "
          "Mean over seeds, ± the 95 % t interval over seeds from three on; two seeds are both printed. ",
          training_sentence(results));
  return table;
}

}  // namespace

Section loss_section(const Results& results, Palette& palette) {
  Section section{.id = "loss", .title = "Training"};
  const auto curves = distinct(results.curves);
  const bool points = std::any_of(curves.begin(), curves.end(),
                                  [](const Curve* c) { return !c->train.empty() || !c->validation.empty(); });
  if (!points) return section;
  Figure figure = loss_figure(results, curves, palette);
  if (!figure.panels.empty()) section.figures.push_back(std::move(figure));
  section.tables.push_back(loss_table(results, curves));
  return section;
}

}  // namespace pe::report
