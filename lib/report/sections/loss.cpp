// Loss against tokens: trunks, the branches that fork off them, and the final loss of each.
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

/// The figure while it is drawn.
struct LossFigure {
  Panel training, validation;
  std::vector<std::string> branches;  ///< variants of branches, in the order of their dashes
  std::int64_t windows = 0;           ///< of the validations that are drawn
  bool left_out = false;              ///< some were measured on another number, which is other text
  std::size_t half = 0;               ///< of the smoothing
  double last = 0;                    ///< tokens
  double early = 0;                   ///< the loss once the steep beginning is over
  bool few = false;                   ///< so few curves that what was logged is drawn too
  bool drops = false;                 ///< some branch drops its encoding
};

/// The lines of the seeds of an encoding and a variant.
struct SeedLines {
  Series model;  ///< name, look, variant and units of each
  std::vector<std::string> seeds;
  std::vector<std::vector<Point>> train, validation;
};

/// Adds the line of a seed. The first seed also adds the mark of a drop and the logged loss.
void add_seed(LossFigure& figure, SeedLines& lines, const std::vector<const Curve*>& curves, const Curve& curve) {
  const std::string& colour = lines.model.look.colour;
  std::vector<Point> train = smoothed(curve.train, figure.half), checks = plain(curve.validation);
  const Curve* trunk = trunk_of(curves, curve);
  if (trunk) {
    const double fork = fork_tokens_of(curve, *trunk);
    train = from_fork(std::move(train), smoothed(trunk->train, figure.half), fork);
    checks = from_fork(std::move(checks), plain(trunk->validation), fork);
  }
  if (const std::int64_t windows = validation_windows(curve); windows > 0 && windows != figure.windows) {
    figure.left_out = figure.left_out || !checks.empty();
    checks.clear();
  }
  const bool first = lines.seeds.empty();
  if (drops_encoding(curve, trunk)) {
    figure.drops = true;
    if (!train.empty() && first) figure.training.flags.push_back({train.front().x, train.front().y, "", colour});
    if (!checks.empty() && first && trunk)
      figure.validation.flags.push_back({checks.front().x, checks.front().y, "", colour});
  }
  if (first && figure.few && figure.half > 0) {
    Series raw = lines.model;
    raw.seed = curve.run.seed;
    raw.role = Series::Role::kRaw;
    raw.points = plain(curve.train);
    raw.labelled = false;
    figure.training.series.push_back(std::move(raw));
  }
  lines.train.push_back(std::move(train));
  lines.validation.push_back(std::move(checks));
  lines.seeds.push_back(curve.run.seed);
}

/// Adds the seeds, where there are several, and their mean.
void add_lines(Panel& panel, const SeedLines& of, const std::vector<std::vector<Point>>& lines, Series::Role role) {
  for (std::size_t s = 0; s < lines.size() && lines.size() > 1; ++s) {
    if (lines[s].empty()) continue;
    Series seed = of.model;
    seed.seed = of.seeds[s];
    seed.role = Series::Role::kSeed;
    seed.points = lines[s];
    seed.labelled = false;
    panel.series.push_back(std::move(seed));
  }
  Series main = of.model;
  main.role = role;
  main.points = mean_of(lines);
  if (!main.points.empty()) panel.series.push_back(std::move(main));
}

void add_model(LossFigure& figure, const Results& results, const std::vector<const Curve*>& curves,
               const std::string& encoding, const std::string& variant, Palette& palette) {
  SeedLines lines{.model = {.name = encoding, .look = palette.look(encoding), .variant = variant}};
  bool branch = false;
  for (const Curve* curve : curves_of(curves, encoding, variant)) {
    if (lines.model.units.empty()) lines.model.units = units_of(results, *curve);
    add_seed(figure, lines, curves, *curve);
    branch = branch || curve->first_step > 0;
    for (const Point& point : lines.train.back()) {
      if (branch || point.x < 0.04 * figure.last) continue;
      figure.early = std::max(figure.early, std::isfinite(point.y) ? point.y : 0);
      break;
    }
  }
  if (branch) {
    const auto index = std::find(figure.branches.begin(), figure.branches.end(), variant) - figure.branches.begin();
    lines.model.look.dash = kBranchDashes[static_cast<std::size_t>(index) % kBranchDashes.size()].first;
  }
  add_lines(figure.training, lines, lines.train, Series::Role::kLine);
  add_lines(figure.validation, lines, lines.validation, Series::Role::kMain);
}

/// Gives the later half of the validation its range, where final differences can be seen. @return whether it has so
/// many points that it is a curve
bool zoom_in(Panel& validation, double last) {
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
  if (places.size() < kFewestOfACurve) return false;
  const double air = std::max(0.06 * (high - low), 0.002);
  validation.x_low = 0.5 * last;
  validation.x_high = 1.02 * last;
  validation.y_low = low - air;
  validation.y_high = high + air;
  return true;
}

LossFigure drawn_losses(const Results& results, const std::vector<const Curve*>& curves, Palette& palette) {
  LossFigure drawn{.few = curves.size() <= 6};
  std::vector<const Curve*> forked;
  std::size_t longest = 0;
  for (const Curve* curve : curves) {
    if (curve->first_step > 0) forked.push_back(curve);
    for (const auto* list : {&curve->train, &curve->validation}) {
      for (const CurvePoint& point : *list) drawn.last = std::max(drawn.last, point.tokens);
    }
    longest = std::max(longest, curve->train.size());
  }
  drawn.branches = variants_of(forked);
  const auto whole = std::find_if(curves.begin(), curves.end(), [](const Curve* c) { return c->first_step == 0; });
  if (!curves.empty()) drawn.windows = validation_windows(whole == curves.end() ? *curves[0] : **whole);
  drawn.half = longest / 100;
  drawn.training.title = drawn.half > 0 ? "Training, smoothed" : "Training";
  drawn.validation.title = "Validation, later half";
  for (const auto& [encoding, variant] : arms_of(curves)) add_model(drawn, results, curves, encoding, variant, palette);
  return drawn;
}

Figure loss_figure(const Results& results, const std::vector<const Curve*>& curves, Palette& palette) {
  LossFigure drawn = drawn_losses(results, curves, palette);
  Figure figure{.x = {.title = "Tokens seen", .ticks = TickStyle::kCount},
                .y = {.title = "Loss, nats per token, lower is better"}};
  double lowest = INFINITY;
  for (const Series& series : drawn.training.series) {
    for (const Point& point : series.points) {
      if (std::isfinite(point.y)) lowest = std::min(lowest, point.y);
    }
  }
  if (drawn.early > lowest) figure.y.high = drawn.early + 0.1 * (drawn.early - lowest);
  if (!drawn.training.series.empty()) figure.panels.push_back(std::move(drawn.training));
  const bool validated = zoom_in(drawn.validation, drawn.last);
  if (validated) figure.panels.push_back(std::move(drawn.validation));
  figure.x.low = 0;
  figure.x.high = 1.02 * drawn.last;
  const std::string unit = add_units(figure, results);
  figure.id = cat("loss_", unit);
  figure.title = cat("Loss against training ", unit);
  std::string branches, others;
  if (drawn.left_out)
    others = cat("validation on other text than the first ", drawn.windows, " windows is in the table only");
  for (std::size_t i = 0; i < drawn.branches.size(); ++i) {
    branches += cat(i == 0 ? "branches, drawn from their fork: " : ", ",
                    drawn.branches[i].empty() ? "branch" : drawn.branches[i], " ",
                    kBranchDashes[i % kBranchDashes.size()].second);
  }
  figure.caption =
      cat(validated ? "Left: training" : "Training", " loss, ", smoothing_words(drawn.half),
          validated ? cat("; right: validation loss, later half of the ", unit, ", on its own scale. ") : ". ",
          join_as_sentence({"Thick: mean over seeds", "thin: single seeds", branches,
                            drawn.drops ? "× marks where the encoding is dropped" : "", others}),
          " ", training_sentence(results));
  figure.description = cat("Line charts of loss against ", unit, " for ", support::join(results.encodings, ", "),
                           ". Final values are in the table.");
  return figure;
}

/// Numbers of windows of the validations, as far as the configs say them.
std::set<std::int64_t> numbers_of_windows(const std::vector<const Curve*>& curves) {
  std::set<std::int64_t> numbers;
  for (const Curve* curve : curves) {
    if (const std::int64_t windows = validation_windows(*curve); windows > 0) numbers.insert(windows);
  }
  return numbers;
}

Table loss_table(const Results& results, const std::vector<const Curve*>& curves) {
  Table table{.id = "final_loss", .title = "Validation loss at the end of training"};
  const std::vector<std::string> variants = variants_of(curves);
  table.columns = arm_columns(variants.size() > 1);
  table.columns.insert(table.columns.end(),
                       {{.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount},
                        {.id = "tokens", .header = "Tokens", .style = NumberStyle::kTokens},
                        {.id = "parameters", .header = "Parameters", .style = NumberStyle::kTokens}});
  const bool windows_differ = numbers_of_windows(curves).size() > 1;
  if (windows_differ) table.columns.push_back({.id = "windows", .header = "Windows", .style = NumberStyle::kCount});
  table.columns.insert(
      table.columns.end(),
      {{.id = "loss", .header = "nats/token", .style = NumberStyle::kNats, .direction = Direction::kLowerIsBetter},
       {.id = "bpb", .header = "bits/byte", .style = NumberStyle::kNats, .direction = Direction::kLowerIsBetter}});
  for (const std::string& variant : variants) {
    bool first = !table.rows.empty();
    for (const std::string& encoding : results.encodings) {
      std::vector<double> losses, bits;
      double tokens = 0, parameters = 0;
      std::string bad;
      const auto own = curves_of(curves, encoding, variant);
      for (const Curve* curve : own) {
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
      if (own.empty()) continue;
      Row row{.cells = arm_cells(encoding, variant, variants.size() > 1),
              .rule_above = first,
              .trainings = places_of(results, own)};
      first = false;
      row.cells.push_back(Cell::of_number(static_cast<double>(own.size())));
      row.cells.push_back(tokens > 0 ? Cell::of_number(tokens) : Cell::missing("–", bad.empty() ? "not logged" : bad));
      row.cells.push_back(parameters > 0 ? Cell::of_number(parameters)
                                         : Cell::missing("–", "the artifact does not say"));
      if (windows_differ) {
        const std::int64_t windows = validation_windows(*own.front());
        row.cells.push_back(windows > 0 ? Cell::of_number(static_cast<double>(windows))
                                        : Cell::missing("–", "the artifact does not say"));
      }
      for (const auto* values : {&losses, &bits}) {
        if (!bad.empty()) {
          row.cells.push_back(Cell::missing(bad.find("diverged") != std::string::npos ? "diverged" : "–", bad));
          continue;
        }
        row.cells.push_back(mean_cell(*values));
      }
      table.rows.push_back(std::move(row));
    }
  }
  table.caption = cat(
      "Last validation of each training, at the training length; a claim about longer contexts needs parity here "
      "first. "
      "Mean over seeds, ± the 95 % t interval over seeds from three on; two seeds are both printed. ",
      windows_differ ? "Losses on different numbers of windows are not comparable. " : "", training_sentence(results));
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
