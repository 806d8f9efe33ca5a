#include "report/figures/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/text_escape.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

bool is_log(Scale scale) { return scale == Scale::kLog2 || scale == Scale::kLog10; }

double signed_log(double value) { return std::asinh(value / kSignedLinear); }

// A straight line on the scale, from a (t = 0) to b (t = 1).
double between(Scale scale, double a, double b, double t) {
  if (is_log(scale)) return std::exp(std::log(std::max(a, 1e-300)) * (1 - t) + std::log(std::max(b, 1e-300)) * t);
  if (scale == Scale::kSigned) return kSignedLinear * std::sinh(signed_log(a) * (1 - t) + signed_log(b) * t);
  return a * (1 - t) + b * t;
}

bool is_named(const Series& series) { return series.role == Series::Role::kMain || series.role == Series::Role::kLine; }

const char* role_name(Series::Role role) {
  switch (role) {
    case Series::Role::kMain:
      return "main";
    case Series::Role::kLine:
      return "line";
    case Series::Role::kSeed:
      return "seed";
    case Series::Role::kRaw:
      return "raw";
    case Series::Role::kContext:
      return "context";
    case Series::Role::kPoints:
      return "points";
  }
  return "main";
}

// The step of about `about` ticks over `width`: 1, 2 or 5 times a power of ten.
double nice_step(double width, int about) {
  const double rough = width / std::max(1, about);
  const double unit = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * unit >= rough * 0.999) return factor * unit;
  }
  return 10 * unit;
}

std::string trimmed(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  if (text == "-0") text = "0";
  if (text[0] == '-') text.replace(0, 1, "−");
  return text;
}

std::string tick_label(double value, const Axis& axis, double largest, int decimals) {
  if (axis.ticks == TickStyle::kPercent) return trimmed(value * 100, std::max(0, decimals - 2)) + " %";
  if (axis.scale == Scale::kLog2) {
    return value >= 1000 && value == std::floor(value) ? support::with_commas(std::llround(value)) : trimmed(value, 3);
  }
  if (axis.ticks == TickStyle::kCount || (axis.scale == Scale::kLog10 && value >= 1000)) {
    // An axis has one unit: 0.5M and 1M, and not 500k and 1M.
    const double size = axis.scale == Scale::kLog10 ? value : largest;
    for (const auto& [unit, suffix] : {std::pair{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}}) {
      if (size >= unit) return value == 0 ? "0" : trimmed(value / unit, 3) + suffix;
    }
  }
  return trimmed(value, decimals);
}

std::vector<Tick> linear_ticks(const Axis& axis, double low, double high, int about) {
  const auto multiples = [&](double of) { return std::floor(high / of + 1e-6) - std::ceil(low / of - 1e-6) + 1; };
  double step = nice_step(high - low, about);
  if (multiples(step) < 3) step = nice_step(high - low, 2 * about);  // two say little of the distances between
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  std::vector<Tick> ticks;
  const double slack = step * 1e-6;
  for (double k = std::ceil((low - slack) / step); k * step <= high + slack && ticks.size() < 100; ++k) {
    ticks.push_back({k * step, tick_label(k * step, axis, std::max(std::abs(low), std::abs(high)), decimals)});
  }
  return ticks;
}

// Solves the least-squares problem with order constraints: pooled neighbours share their mean.
struct Pool {
  double sum;
  double count;
  double mean() const { return sum / count; }
};

}  // namespace

double position_in(Scale scale, double low, double high, double value) {
  if (is_log(scale)) return std::log(value / low) / std::log(high / low);
  if (scale == Scale::kSigned) return (signed_log(value) - signed_log(low)) / (signed_log(high) - signed_log(low));
  return (value - low) / (high - low);
}

std::vector<Tick> ticks_of(const Axis& axis, double low, double high, int about) {
  if (axis.scale == Scale::kLog2) {
    std::vector<Tick> ticks;
    const double first = std::ceil(std::log2(low) - 1e-9), last = std::floor(std::log2(high) + 1e-9);
    const double step = std::max(1.0, std::ceil((last - first + 1) / std::max(2, about + 3)));
    for (double k = first; k <= last; k += step)
      ticks.push_back({std::exp2(k), tick_label(std::exp2(k), axis, high, 0)});
    return ticks;
  }
  if (axis.scale == Scale::kLog10) {
    const double decades = std::log10(high / low);
    std::vector<Tick> ticks;
    for (double k = std::floor(std::log10(low)); k <= std::ceil(std::log10(high)); ++k) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        if (decades > 2.5 && factor != 1.0) continue;
        const double at = factor * std::pow(10, k);
        if (at >= low * 0.9999 && at <= high * 1.0001) ticks.push_back({at, tick_label(at, axis, high, 6)});
      }
    }
    return ticks.size() >= 3 ? ticks : linear_ticks(axis, low, high, about);
  }
  if (axis.scale == Scale::kSigned && std::max(-low, high) > 5 * kSignedLinear) {
    std::vector<Tick> ticks{{0, "0"}};
    for (double size = kSignedLinear; size <= std::max(-low, high); size *= 10) {
      for (const double at : {-size, size}) {
        if (at >= low && at <= high) ticks.push_back({at, tick_label(at, axis, high, 6)});
      }
    }
    std::sort(ticks.begin(), ticks.end(), [](const Tick& a, const Tick& b) { return a.at < b.at; });
    return ticks;
  }
  return linear_ticks(axis, low, high, about);
}

Range range_of(const Axis& axis, const std::vector<double>& values) {
  double low = kUnknown, high = kUnknown;
  for (const double value : values) {
    if (!std::isfinite(value) || (is_log(axis.scale) && value <= 0)) continue;
    low = std::isnan(low) ? value : std::min(low, value);
    high = std::isnan(high) ? value : std::max(high, value);
  }
  if (std::isnan(low)) {
    low = std::isnan(axis.low) ? (is_log(axis.scale) ? 1 : 0) : axis.low;
    high = std::isnan(axis.high) ? (is_log(axis.scale) ? 2 * low : low + 1) : axis.high;
  }
  if (!is_log(axis.scale)) {
    const double air = high > low ? 0.04 * (high - low) : std::max(0.05 * std::abs(low), 1e-3);
    low -= air;
    high += air;
  } else {
    const double air = high > low * 1.0001 ? std::pow(high / low, 0.05) : (axis.scale == Scale::kLog2 ? 2.0 : 1.1);
    low /= air;
    high *= air;
  }
  if (!std::isnan(axis.low)) low = axis.low;
  if (!std::isnan(axis.high)) high = axis.high;
  if (!(low < high)) high = is_log(axis.scale) ? low * 2 : low + 1;
  return {low, high, ticks_of(axis, low, high, 5)};
}

std::vector<double> spread_labels(const std::vector<double>& wanted, double gap, double low, double high) {
  const std::size_t n = wanted.size();
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return wanted[a] < wanted[b]; });
  // With the k-th label moved down by k·gap, "at least gap apart" becomes "not decreasing": isotonic regression.
  std::vector<Pool> pools;
  for (std::size_t k = 0; k < n; ++k) {
    pools.push_back({wanted[order[k]] - gap * static_cast<double>(k), 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() >= pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  std::vector<double> placed(n);
  const double top = high - gap * (n ? static_cast<double>(n - 1) : 0);  // bound of every moved label
  std::size_t k = 0;
  for (const Pool& pool : pools) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(std::lround(pool.count)); ++i, ++k) {
      placed[order[k]] = std::max(low, std::min(top, pool.mean())) + gap * static_cast<double>(k);
    }
  }
  return placed;
}

std::vector<Point> thin(const std::vector<Point>& points, std::size_t limit) {
  if (points.size() <= limit || limit < 8) return points;
  const std::size_t stretches = limit / 2 - 1;
  std::vector<Point> kept{points.front()};
  for (std::size_t s = 0; s < stretches; ++s) {
    const std::size_t first = 1 + s * (points.size() - 2) / stretches;
    const std::size_t last = 1 + (s + 1) * (points.size() - 2) / stretches;
    std::size_t low = first, high = first;
    for (std::size_t i = first; i < last; ++i) {
      if (points[i].y < points[low].y) low = i;
      if (points[i].y > points[high].y) high = i;
    }
    if (first >= last) continue;
    kept.push_back(points[std::min(low, high)]);
    if (low != high) kept.push_back(points[std::max(low, high)]);
  }
  kept.push_back(points.back());
  return kept;
}

ClippedLine clip_line(const std::vector<Point>& points, Scale x_scale, Scale y_scale, double low, double high) {
  ClippedLine result;
  std::vector<Point> piece;
  const auto flush = [&] {
    if (!piece.empty()) result.pieces.push_back(std::move(piece));
    piece.clear();
  };
  const auto inside = [&](double y) { return y >= low && y <= high; };
  // Where a segment meets the level; an infinite end is met at its own x.
  const auto crossing = [&](const Point& a, const Point& b, double level) {
    Point cut = std::isinf(b.y) ? b : a;
    cut.y = level;
    if (std::isfinite(a.y) && std::isfinite(b.y)) {
      const double from = position_in(y_scale, low, high, std::max(a.y, is_log(y_scale) ? 1e-300 : a.y));
      const double to = position_in(y_scale, low, high, std::max(b.y, is_log(y_scale) ? 1e-300 : b.y));
      const double at = position_in(y_scale, low, high, level);
      cut.x = between(x_scale, a.x, b.x, (at - from) / (to - from));
    }
    return cut;
  };
  const Point* previous = nullptr;
  for (const Point& point : points) {
    if (std::isnan(point.y) || std::isnan(point.x)) {
      flush();
      previous = nullptr;
      continue;
    }
    const bool now = inside(point.y);
    if (previous) {
      const bool before = inside(previous->y);
      if (before && !now) {
        piece.push_back(crossing(*previous, point, point.y > high ? high : low));
        flush();
        if (point.y > high) result.exit_x = result.pieces.back().back().x;
      } else if (!before && now) {
        flush();
        piece.push_back(crossing(point, *previous, previous->y > high ? high : low));
      }
    }
    if (now) piece.push_back(point);
    result.leaves_top = point.y > high;
    if (result.leaves_top && !previous) result.exit_x = point.x;
    result.last_y = point.y;
    previous = &point;
  }
  flush();
  return result;
}

std::vector<std::vector<Point>> clamp_band(const std::vector<Point>& points, Scale x_scale, Scale y_scale, double low,
                                           double high, int samples) {
  std::vector<std::vector<Point>> pieces;
  std::vector<Point> piece;
  const auto usable = [](const Point& p) { return !std::isnan(p.low) && !std::isnan(p.high) && !std::isnan(p.y); };
  const auto clamped = [&](double y) { return std::min(high, std::max(low, y)); };
  // Interpolates on the scale; where one end is infinite the other end's value holds until the end is reached.
  const auto bound = [&](double a, double b, double t) {
    return std::isfinite(a) && std::isfinite(b) ? between(y_scale, a, b, t) : t < 1 ? a : b;
  };
  const auto flush = [&] {
    if (piece.size() > 1) pieces.push_back(std::move(piece));
    piece.clear();
  };
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!usable(points[i])) {
      flush();
      continue;
    }
    if (!piece.empty()) {
      const Point& a = points[i - 1];
      const Point& b = points[i];
      const bool leaves = a.low < low || a.high > high || b.low < low || b.high > high;
      const int steps = leaves ? samples : 1;  // inside the range two straight edges are exact on the page
      for (int s = 1; s < steps; ++s) {
        const double t = static_cast<double>(s) / steps;
        Point at = a;
        at.x = between(x_scale, a.x, b.x, t);
        at.low = clamped(bound(a.low, b.low, t));
        at.high = clamped(bound(a.high, b.high, t));
        piece.push_back(at);
      }
    }
    Point at = points[i];
    at.low = clamped(at.low);
    at.high = clamped(at.high);
    piece.push_back(at);
  }
  flush();
  return pieces;
}

double text_width(std::string_view text) {
  double width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80) {
      if (byte >= 0xC0) width += byte >= 0xE3 ? 1.0 : 0.75;  // beginnings only; from U+3000 on full width
      continue;
    }
    const char c = text[i];
    if (std::string_view("iljI|'.,:;!").find(c) != std::string_view::npos)
      width += 0.32;
    else if (std::string_view(" ftr()[]-/").find(c) != std::string_view::npos)
      width += 0.39;
    else if (std::string_view("mwMW%@").find(c) != std::string_view::npos)
      width += 0.95;
    else if (c >= 'A' && c <= 'Z')
      width += 0.70;
    else
      width += 0.63;
  }
  return width;
}

std::vector<std::string> names_of(const Panel& panel) {
  std::vector<std::string> names;
  for (const Series& series : panel.series) {
    if (!series.labelled || series.name.empty() || !is_named(series)) continue;
    if (std::find(names.begin(), names.end(), series.name) == names.end()) names.push_back(series.name);
  }
  return names;
}

std::vector<std::string> names_of(const Figure& figure) {
  std::vector<std::string> names;
  for (const Panel& panel : figure.panels) {
    for (const std::string& name : names_of(panel)) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> leading_names(const Figure& figure, const std::string& first, std::size_t most) {
  std::vector<std::pair<double, std::string>> ends;
  const bool higher = figure.y.title.find("higher is better") != std::string::npos;
  for (const std::string& name : names_of(figure)) {
    double end = std::numeric_limits<double>::infinity();  // of a name that the leading panel lacks
    if (!figure.panels.empty()) {
      for (const Series& series : figure.panels.at(figure.lead).series) {
        if (series.name != name || !is_named(series) || series.points.empty()) continue;
        const double last = series.points.back().y;
        end = std::isnan(last) ? end : higher ? -last : last;
      }
    }
    ends.emplace_back(end, name);
  }
  std::stable_sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (const auto& [end, name] : ends) {
    if (name == first) names.push_back(name);
  }
  for (const auto& [end, name] : ends) {
    if (names.size() < most && name != first) names.push_back(name);
  }
  return names;
}

Figure with_others_in_grey(Figure figure, const std::vector<std::string>& names, std::size_t few) {
  const auto chosen = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (Panel& panel : figure.panels) {
    if (names_of(panel).size() <= few) continue;
    std::set<std::string> others;  // their colours, of which flags are drawn
    for (Series& series : panel.series) {
      if (!chosen(series.name)) others.insert(series.look.colour);
    }
    for (const Series& series : panel.series) {
      if (chosen(series.name)) others.erase(series.look.colour);
    }
    std::erase_if(panel.flags, [&](const Flag& flag) { return others.count(flag.colour) != 0; });
    std::erase_if(panel.series, [&](const Series& series) { return !chosen(series.name) && !is_named(series); });
    for (Series& series : panel.series) {
      if (chosen(series.name)) continue;
      series.role = Series::Role::kContext;
      series.whiskers = false;
    }
  }
  return figure;
}

Figure small_multiples(const Figure& figure) {
  Figure each = figure;
  each.id += "_each";
  each.columns = 3;
  each.panels.clear();
  if (figure.panels.empty()) return each;
  each.lead = 0;
  const Panel& leading = figure.panels.at(figure.lead);
  if (figure.panels.size() > 1 && !leading.title.empty()) each.title += cat(", ", leading.title);
  for (const std::string& name : names_of(leading)) {
    Figure one = figure;
    one.lead = 0;
    one.panels = {leading};
    one = with_others_in_grey(std::move(one), {name});
    Panel panel = std::move(one.panels.front());
    panel.title = panel.encoding = name;
    for (Series& series : panel.series) series.labelled = false;  // the title says it
    each.panels.push_back(std::move(panel));
  }
  return each;
}

std::string figure_csv(const Figure& figure) {
  const auto number = [](double value) {
    return std::isfinite(value) ? support::shortest(value) : std::isinf(value) ? "inf" : "";
  };
  std::string text = "panel,series,seed,role,x,y,low,high,n,value";
  for (const Unit& unit : figure.x_units) text += cat(",x_", unit.id);
  text += "\r\n";
  const std::string no_units(figure.x_units.size(), ',');
  for (const Panel& panel : figure.panels) {
    for (const Series& series : panel.series) {
      for (const Point& p : series.points) {
        text += cat(quote_csv(panel.title), ",", quote_csv(series.name), ",", quote_csv(series.seed), ",",
                    role_name(series.role), ",", number(p.x), ",", number(p.y), ",", number(p.low), ",", number(p.high),
                    ",", number(p.n), ",");
        for (const Unit& unit : figure.x_units) {
          const auto factor = series.units.find(unit.id);
          text += cat(",", factor == series.units.end() ? "" : number(p.x * factor->second));
        }
        text += "\r\n";
      }
    }
    for (const HeatCell& cell : panel.cells) {
      text +=
          cat(quote_csv(panel.title), ",,,cell,", quote_csv(figure.x_names.at(static_cast<std::size_t>(cell.column))),
              ",", quote_csv(figure.y_names.at(static_cast<std::size_t>(cell.row))), ",,,,", number(cell.value),
              no_units, "\r\n");
    }
  }
  return text;
}

namespace {

/// JSON has neither NaN nor infinity: null is a gap, "inf" is beyond any range. Five digits are enough to look at.
Json number_json(double value) {
  if (std::isfinite(value)) return std::stod(fmt::format("{:.5g}", value));
  return std::isinf(value) ? Json("inf") : Json();
}

Json axis_json(const Axis& axis) {
  static const char* const scales[] = {"linear", "log2", "log10", "linear"};
  static const char* const styles[] = {"plain", "count", "percent"};
  Json entry{{"title", axis.title},
             {"scale", scales[static_cast<int>(axis.scale)]},
             {"ticks", styles[static_cast<int>(axis.ticks)]}};
  if (axis.hidden) entry["hidden"] = true;
  return entry;
}

Json series_json(const Series& series, std::size_t limit) {
  Json points = Json::array();
  for (const Point& p : thin(series.points, limit)) {
    Json point =
        Json::array({std::isfinite(p.x) ? Json(std::stod(fmt::format("{:.8g}", p.x))) : Json(), number_json(p.y)});
    if (!std::isnan(p.low) && !std::isnan(p.high)) {
      point.push_back(number_json(p.low));
      point.push_back(number_json(p.high));
      if (std::isfinite(p.n)) point.push_back(p.n);
    }
    points.push_back(std::move(point));
  }
  Json entry{{"name", series.name},
             {"seed", series.seed},
             {"role", role_name(series.role)},
             {"colour", series.look.colour},
             {"dash", static_cast<int>(series.look.dash)},
             {"shape", static_cast<int>(series.look.shape)},
             {"points", std::move(points)}};
  if (series.role == Series::Role::kContext && series.labelled) entry["named"] = true;
  if (!series.variant.empty()) entry["variant"] = series.variant;
  if (!series.units.empty()) entry["units"] = series.units;
  return entry;
}

}  // namespace

Json figure_json(const Figure& figure, std::size_t limit, std::size_t panels) {
  Json json{{"id", figure.id},
            {"title", figure.title},
            {"x", axis_json(figure.x)},
            {"y", axis_json(figure.y)},
            {"panels", Json::array()}};
  for (const Unit& unit : figure.x_units) {
    Json entry = axis_json(unit.axis);
    entry["id"] = unit.id;
    json["units"].push_back(std::move(entry));
  }
  for (const Panel& panel : figure.panels) {
    if (json["panels"].size() == panels) break;
    Json series = Json::array();
    for (const Series& s : panel.series)
      series.push_back(series_json(s, s.role == Series::Role::kContext ? limit / 3 : limit));
    Json rules = Json::array();
    for (const Rule& rule : panel.rules)
      rules.push_back({{"vertical", rule.vertical}, {"at", rule.at}, {"label", rule.label}});
    Json flags = Json::array();
    for (const Flag& flag : panel.flags)
      flags.push_back({{"x", flag.x}, {"y", number_json(flag.y)}, {"text", flag.text}});
    Json entry{{"title", panel.title},
               {"series", std::move(series)},
               {"rules", std::move(rules)},
               {"flags", std::move(flags)}};
    for (const Shade& shade : panel.shades)
      entry["shades"].push_back({{"low", shade.low}, {"high", shade.high}, {"label", shade.label}});
    if (!panel.encoding.empty()) entry["encoding"] = panel.encoding;
    if (!panel.variant.empty()) entry["variant"] = panel.variant;
    const auto bound = [&](const char* name, const std::optional<double>& own, double shared) {
      if (own)
        entry[name] = *own;
      else if (!std::isnan(shared))
        entry[name] = shared;
    };
    bound("x_low", panel.x_low, figure.x.low);
    bound("x_high", panel.x_high, figure.x.high);
    bound("y_low", panel.y_low, figure.y.low);
    bound("y_high", panel.y_high, figure.y.high);
    json["panels"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace pe::report
