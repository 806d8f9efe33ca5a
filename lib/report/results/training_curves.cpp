#include "report/results/training_curves.h"

#include "report/results/drops.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "report/results/arms.h"
#include "report/results/cost_settings.h"
#include "report/results/rows.h"
#include "schema/models.h"
#include "support/json_fields.h"
#include "support/text.h"

namespace pe::report {
namespace {

bool begins_like(const std::vector<CurvePoint>& longer, const std::vector<CurvePoint>& shorter) {
  if (shorter.size() > longer.size()) return false;
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    if (longer[i].step != shorter[i].step || longer[i].loss != shorter[i].loss) return false;
  }
  return true;
}

/// By dotted key; null where it is not there.
Json at_key(const Json& config, const std::string& key) {
  const Json* at = &config;
  for (const std::string& part : support::split(key, '.')) {
    if (!at->is_object() || !at->contains(part)) return {};
    at = &(*at)[part];
  }
  return *at;
}

double setting_number(const Curve& curve, const char* key) {
  const Json value = setting_of(curve, key);
  return value.is_number() ? value.get<double>() : NAN;
}

}  // namespace

Json setting_of(const Curve& curve, const std::string& key) {
  const Json own = at_key(curve.config, key);
  return own.is_null() ? at_key(curve.inherited, key) : own;
}

void inherit_settings(std::vector<Curve>& curves) {
  std::map<std::pair<std::string, std::string>, std::vector<const Curve*>>
      whole;  // encoding, seed → curves whose config has a model
  for (const Curve& curve : curves) {
    if (at_key(curve.config, "model").is_object()) whole[{curve.run.encoding, curve.run.seed}].push_back(&curve);
  }
  for (Curve& curve : curves) {
    if (!curve.config.is_object() || curve.config.contains("model")) continue;
    const auto parents = whole.find({curve.run.encoding, curve.run.seed});
    if (parents == whole.end()) continue;
    Json model;
    bool known = true;
    for (const Curve* parent : parents->second) {
      if (!labels_agree(parent->run.labels, curve.run.labels)) continue;
      const Json theirs = at_key(parent->config, "model");
      known = known && (model.is_null() || model == theirs);
      model = theirs;
    }
    if (known && !model.is_null()) curve.inherited["model"] = model;
  }
}

double batch_of(const Curve& curve) {
  const double told = setting_number(curve, "train.batch");
  if (std::isfinite(told)) return told;
  // Each step sees as many tokens, and the log counts both.
  for (const auto* points : {&curve.train, &curve.validation}) {
    if (points->size() < 2 || curve.run.train_length <= 0) continue;
    const CurvePoint &first = points->front(), &last = points->back();
    const double batch =
        (last.tokens - first.tokens) / (last.step - first.step) / static_cast<double>(curve.run.train_length);
    if (batch == std::floor(batch)) return batch;
  }
  return NAN;
}

std::vector<Point> smoothed(const std::vector<CurvePoint>& points, std::size_t half) {
  std::vector<Point> result;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t reach = std::min({half, i, points.size() - 1 - i});
    double sum = 0;
    for (std::size_t k = i - reach; k <= i + reach; ++k) sum += points[k].loss;
    result.push_back({.x = points[i].tokens, .y = sum / static_cast<double>(2 * reach + 1)});
  }
  return result;
}

std::string smoothing_words(std::size_t half) {
  return half == 0 ? "as logged" : support::cat("centred mean over ", 2 * half + 1, " logged steps");
}

std::vector<Point> plain(const std::vector<CurvePoint>& points) {
  std::vector<Point> result;
  for (const CurvePoint& point : points) result.push_back({.x = point.tokens, .y = point.loss});
  return result;
}

std::vector<CurvePoint> paired_gap(const Curve& curve, const Curve& base) {
  std::map<double, double> losses;
  for (const CurvePoint& point : base.train) losses[point.step] = point.loss;
  std::vector<CurvePoint> gap;
  for (const CurvePoint& point : curve.train) {
    const auto other = losses.find(point.step);
    if (other == losses.end() || !std::isfinite(point.loss) || !std::isfinite(other->second)) continue;
    gap.push_back({.step = point.step, .tokens = point.tokens, .loss = point.loss - other->second});
  }
  return gap;
}

std::int64_t validation_windows(const Curve& curve) {
  if (!curve.config.is_object()) return 0;
  for (const Json& group : curve.config) {  // train, decay, drop or extend
    const std::int64_t windows = group.is_object() ? support::field_or(group, "validate_windows", std::int64_t{0}) : 0;
    if (windows > 0) return windows;
  }
  return 0;
}

bool same_validation(const Curve& a, const Curve& b) {
  const std::int64_t one = validation_windows(a), other = validation_windows(b);
  return one == 0 || other == 0 || one == other;
}

std::string data_name(const Results& results, const Curve& curve, const std::string& unnamed) {
  for (const std::string& entry : results.data_names) {
    const auto equals = entry.find('=');
    // Digests are texts of a list: each begins after a quotation mark.
    if (equals != std::string::npos && equals > 0 &&
        curve.data.find("\"" + entry.substr(0, equals)) != std::string::npos)
      return entry.substr(equals + 1);
  }
  for (const char* axis : {"data", "text"}) {
    if (const auto label = curve.run.labels.find(axis); label != curve.run.labels.end()) return label->second;
  }
  return unnamed;
}

const Curve* trunk_of(const std::vector<const Curve*>& curves, const Curve& branch) {
  for (const Curve* curve : curves) {
    if (curve != &branch && curve->first_step == 0 && branch.first_step > 0 &&
        curve->run.encoding == branch.run.encoding && curve->run.seed == branch.run.seed &&
        labels_agree(curve->run.labels, branch.run.labels))
      return curve;
  }
  return nullptr;
}

std::vector<const Curve*> distinct(const std::vector<Curve>& curves) {
  std::vector<const Curve*> kept;
  for (const Curve& curve : curves) {
    bool contained = false;
    for (const Curve& other : curves) {
      if (&other == &curve || other.run.encoding != curve.run.encoding || other.run.seed != curve.run.seed) continue;
      if (drop_arm(other) != drop_arm(curve)) continue;  // a drop has the name of its control
      if (!labels_agree(without_makers(other.run.labels), without_makers(curve.run.labels))) continue;
      if (other.first_step != curve.first_step || curve.train.empty() || !begins_like(other.train, curve.train))
        continue;
      contained = contained || other.train.size() > curve.train.size() || &other < &curve;
    }
    if (!contained) kept.push_back(&curve);
  }
  return kept;
}

double last_tokens(const Curve& curve) {
  double tokens = 0;
  for (const auto* points : {&curve.train, &curve.validation}) {
    if (!points->empty()) tokens = std::max(tokens, points->back().tokens);
  }
  return tokens;
}

std::vector<const Curve*> pointers_to(const std::vector<Curve>& curves) {
  std::vector<const Curve*> pointers;
  for (const Curve& curve : curves) pointers.push_back(&curve);
  return pointers;
}

std::vector<const Curve*> curves_of(const std::vector<const Curve*>& curves, const std::string& encoding,
                                    const std::string& variant) {
  std::vector<const Curve*> own;
  for (const Curve* curve : curves) {
    if (curve->run.encoding == encoding && curve->run.variant == variant) own.push_back(curve);
  }
  return own;
}

std::vector<std::pair<std::string, std::string>> arms_of(const std::vector<const Curve*>& curves) {
  std::vector<std::pair<std::string, std::string>> arms;
  for (const Curve* curve : curves) {
    const std::pair arm{curve->run.encoding, curve->run.variant};
    if (std::find(arms.begin(), arms.end(), arm) == arms.end()) arms.push_back(arm);
  }
  return arms;
}

std::vector<std::string> variants_of(const std::vector<const Curve*>& curves) {
  std::vector<std::string> variants;
  for (const Curve* curve : curves) {
    if (std::find(variants.begin(), variants.end(), curve->run.variant) == variants.end())
      variants.push_back(curve->run.variant);
  }
  return variants;
}

std::vector<Point> from_fork(std::vector<Point> points, const std::vector<Point>& trunk, double fork_tokens) {
  const Point* fork = nullptr;
  for (const Point& point : trunk) {
    if (point.x <= fork_tokens * (1 + 1e-9)) fork = &point;
  }
  if (fork && (points.empty() || fork->x < points.front().x)) points.insert(points.begin(), *fork);
  return points;
}

double fork_tokens_of(const Curve& branch, const Curve& trunk) {
  double tokens = 0;
  for (const CurvePoint& point : trunk.train) {
    if (point.step <= branch.first_step) tokens = point.tokens;
  }
  // Validations are at the fork itself, logged steps perhaps before it.
  for (const CurvePoint& point : trunk.validation) {
    if (point.step <= branch.first_step) tokens = std::max(tokens, point.tokens);
  }
  return tokens;
}

std::vector<Point> mean_of(const std::vector<std::vector<Point>>& seeds) {
  std::map<double, std::vector<double>> at;
  for (const auto& points : seeds) {
    for (const Point& point : points) at[point.x].push_back(point.y);
  }
  std::vector<Point> mean;
  for (const auto& [x, values] : at) {
    if (values.size() == seeds.size())
      mean.push_back({.x = x, .y = statistics::summarise_seeds(values).mean, .n = static_cast<double>(values.size())});
  }
  return mean;
}

double flops_per_token(const Curve& curve) {
  const Json& facts = curve.run.facts;
  const double layers = setting_number(curve, "model.layers"), heads = setting_number(curve, "model.heads"),
               width = setting_number(curve, "model.width"), vocabulary = setting_number(curve, "model.vocabulary");
  double head_width = setting_number(curve, "model.head_width");
  if (!(head_width > 0)) head_width = width / heads;
  if (!facts.contains("parameters") || !facts["parameters"].is_number()) return NAN;
  double weights = facts["parameters"].get<double>();
  // Rows of an embedding that is no head are looked up and not multiplied.
  if (setting_of(curve, "model.tied") == false && vocabulary > 0) weights -= vocabulary * width;
  return 6 * weights + 12 * layers * heads * head_width * static_cast<double>(curve.run.train_length);
}

namespace {

/// Whether a model of this training was timed. Seeds are not compared, nor is a size that only one of them names.
bool of_this_model(const Run& timed, const Run& trained) {
  Labels labels = without_makers(timed.labels);
  labels.erase("seed");
  return timed.encoding == trained.encoding && labels_agree(labels, without_makers(trained.labels));
}

/// Hours a token of a training step, as pe-measure timed it for that model by the cheapest route, in the setting that
/// most models have. NaN where it did not.
double hours_per_token(const Results& results, const Curve& curve) {
  const std::vector<CostSetting> settings = cost_settings(results, "best");
  std::vector<double> hours;
  each_row<schema::Cost>(results, [&](std::size_t run, const schema::Cost& row) {
    if (row.component != "training_step" || row.status != "ok" || row.path != "best") return;
    if (setting_of(row) != settings.front() || !of_this_model(results.runs[run], curve.run)) return;
    if (row.length != curve.run.train_length) return;
    hours.push_back(row.median_ms / 3.6e6 / (static_cast<double>(row.batch) * static_cast<double>(row.length)));
  });
  return mean_of_finite(hours);
}

double steps_per_token(const Curve& curve) {
  for (const auto* points : {&curve.train, &curve.validation}) {
    if (!points->empty() && points->back().tokens > 0) return points->back().step / points->back().tokens;
  }
  return NAN;
}

}  // namespace

std::map<std::string, double> units_of(const Results& results, const Curve& curve) {
  std::map<std::string, double> units{
      {"steps", steps_per_token(curve)}, {"flops", flops_per_token(curve)}, {"hours", hours_per_token(results, curve)}};
  std::erase_if(units, [](const auto& unit) { return !std::isfinite(unit.second); });
  return units;
}

namespace {

/// The size of one x in that unit, where all series agree.
std::optional<double> common_factor(const Figure& figure, const std::string& unit) {
  std::optional<double> factor;
  for (const Panel& panel : figure.panels) {
    for (const Series& series : panel.series) {
      const auto found = series.units.find(unit);
      if (found == series.units.end() || (factor && std::abs(found->second / *factor - 1) > 1e-9)) return std::nullopt;
      factor = found->second;
    }
  }
  return factor;
}

void draw_in(Figure& figure, const std::string& unit, double factor) {
  const auto chosen =
      std::find_if(figure.x_units.begin(), figure.x_units.end(), [&](const Unit& one) { return one.id == unit; });
  const Unit tokens{"tokens", figure.x};
  figure.x.low *= factor;  // NaN, where it is from the data, stays so
  figure.x.high *= factor;
  figure.x.title = chosen->axis.title;
  figure.x.ticks = chosen->axis.ticks;
  *chosen = tokens;
  chosen->axis.low = chosen->axis.high = kUnknown;
  for (Panel& panel : figure.panels) {
    if (panel.x_low) *panel.x_low *= factor;
    if (panel.x_high) *panel.x_high *= factor;
    for (Flag& flag : panel.flags) flag.x *= factor;
    for (Series& series : panel.series) {
      for (Point& point : series.points) point.x *= factor;
      series.units.erase(unit);
      for (auto& [name, of_token] : series.units) of_token /= factor;
      series.units["tokens"] = 1 / factor;
    }
  }
}

}  // namespace

std::string add_units(Figure& figure, const Results& results) {
  const std::string& drawn = results.x_unit;
  const std::vector<CostSetting> settings = cost_settings(results, "best");
  const Unit known[] = {
      {"steps", {.title = "Steps", .ticks = TickStyle::kCount}},
      {"flops", {.title = "Training FLOPs, estimated", .ticks = TickStyle::kCount}},
      {"hours",
       {.title = settings.empty() ? "" : support::cat("Hours of training steps on ", settings.front().text())}}};
  for (const Unit& unit : known) {
    bool all = false, every = true;
    for (const Panel& panel : figure.panels) {
      for (const Series& series : panel.series) {
        all = true;
        every = every && series.units.count(unit.id) != 0;
      }
    }
    if (all && every) figure.x_units.push_back(unit);
  }
  const auto factor = drawn == "tokens" ? std::nullopt : common_factor(figure, drawn);
  if (!factor) return "tokens";
  draw_in(figure, drawn, *factor);
  return drawn;
}

}  // namespace pe::report
