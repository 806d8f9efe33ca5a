#include "report/figures/gnuplot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "report/figures/compact_svg.h"
#include "report/text_escape.h"
#include "support/error.h"
#include "support/process.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

constexpr int kMissingProgram = 72;   // EX_OSFILE: part of the system is not there, and a retry will not help
constexpr double kLongestLabel = 15;  // in font sizes; longer names are cut with "…"

// Cividis: even in lightness, and the same to people with any common deficiency of colour vision.
constexpr std::array<std::array<int, 3>, 12> kCividis{{{0x00, 0x20, 0x4D},
                                                       {0x00, 0x30, 0x6F},
                                                       {0x2A, 0x40, 0x6C},
                                                       {0x48, 0x52, 0x6B},
                                                       {0x5E, 0x62, 0x6E},
                                                       {0x72, 0x73, 0x74},
                                                       {0x87, 0x84, 0x79},
                                                       {0x9E, 0x96, 0x77},
                                                       {0xB6, 0xA9, 0x71},
                                                       {0xD0, 0xBE, 0x67},
                                                       {0xEA, 0xD3, 0x57},
                                                       {0xFF, 0xEA, 0x46}}};

struct Rgb {
  int r, g, b;
  std::string hex() const { return fmt::format("#{:02x}{:02x}{:02x}", r, g, b); }
  int packed() const { return r << 16 | g << 8 | b; }
  bool light() const { return 0.299 * r + 0.587 * g + 0.114 * b > 128; }
};

Rgb ramp(double share) {
  const double at = std::clamp(share, 0.0, 1.0) * (kCividis.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(at), kCividis.size() - 2);
  const double part = at - static_cast<double>(below);
  const auto mixed = [&](std::size_t i) {
    return static_cast<int>(std::lround(kCividis[below][i] * (1 - part) + kCividis[below + 1][i] * part));
  };
  return {mixed(0), mixed(1), mixed(2)};
}

std::string num(double value) { return fmt::format("{:.6g}", value); }
std::string frac(double value) { return fmt::format("{:.5f}", value); }

int point_type(const Look& look) {
  static constexpr int kFilled[] = {7, 5, 9, 11, 13, 15};
  return kFilled[static_cast<int>(look.shape)] - (look.open ? 1 : 0);
}

std::string dash_type(Dash dash) {
  if (dash == Dash::kDashed) return "(7,4)";
  if (dash == Dash::kDotted) return "(2,3)";
  if (dash == Dash::kDashDotted) return "(8,3,2,3)";
  return "1";
}

bool has_band(const Series& series) {
  return (series.role == Series::Role::kMain || series.role == Series::Role::kLine) && !series.whiskers &&
         std::any_of(series.points.begin(), series.points.end(),
                     [](const Point& p) { return !std::isnan(p.low) && !std::isnan(p.high); });
}

/// Many bands over each other would hide the lines.
bool has_outlines(const Panel& panel) {
  return std::count_if(panel.series.begin(), panel.series.end(), has_band) >= kBandsAsOutlines;
}

std::string shortened(const std::string& name, double widest = kLongestLabel) {
  if (text_width(name) <= widest) return name;
  std::string kept;
  for (std::size_t i = 0; i < name.size();) {
    std::size_t end = i + 1;
    while (end < name.size() && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) ++end;
    if (text_width(kept) + 1.5 > widest) break;
    kept += name.substr(i, end - i);
    i = end;
  }
  return kept + "…";
}

// A panel's place on the canvas and its axes; screen coordinates count from the lower left.
struct Frame {
  double left = 0, right = 0, bottom = 0, top = 0;  // of the plot itself
  double cell_left = 0, cell_right = 0, cell_bottom = 0, cell_top = 0;
  Range x, y;
};

struct EndLabel {
  std::string text;
  std::string colour;
  double wanted = 0;  // canvas units
  double from_x = 0;  // where the line ends
  double placed = 0;
  bool reaches_edge = true;
  bool from_top = false;
};

class Script {
 public:
  Script(const Figure& figure, const Canvas& canvas) : figure_(figure), canvas_(canvas), em_(canvas.font_size) {
    columns_ =
        std::max(1, std::min(canvas.columns ? canvas.columns : figure.columns, static_cast<int>(figure.panels.size())));
    rows_ = (static_cast<int>(figure.panels.size()) + columns_ - 1) / columns_;
    rows_ = std::max(1, rows_);
    width_ = canvas.panel_width * columns_;
    foot_ = figure.setting.empty() ? 0 : em_ * 1.8;
    height_ = canvas.panel_height * rows_ + foot_;
  }

  std::string build() {
    if (figure_.kind == Figure::Kind::kLines) {
      // Panels leave equal room for labels, so that their plots are equally wide.
      for (const Panel& p : figure_.panels) {
        Frame f{.right = 1, .top = 1};
        ranges(p, f);
        for (const EndLabel& l : end_labels(p, f)) label_room_ = std::max(label_room_, text_width(l.text));
      }
    }
    for (std::size_t i = 0; i < figure_.panels.size(); ++i) panel(i);
    return header() + data_ + "set multiplot\n" + body_ + "unset multiplot\n";
  }

 private:
  std::string header() const {
    // pdfcairo counts 96 dots an inch for text and 72 for all else: three quarters make a point a point.
    const bool svg = canvas_.format == Canvas::Format::kSvg;
    std::string text =
        svg ? cat("set terminal svg size ", num(std::ceil(width_)), ",", num(std::ceil(height_)),
                  " dynamic rounded noenhanced font 'DejaVu Sans,", num(em_), "' background '#ffffff'\n")
            : cat("set terminal pdfcairo size ", num(width_ / 72), "in,", num(height_ / 72),
                  "in rounded noenhanced fontscale 0.75 font 'DejaVu Sans,", num(em_), "' background '#ffffff'\n");
    return text + "set encoding utf8\nunset key\nset tics nomirror out scale 0.5\nset style fill solid 1 noborder\n";
  }

  std::string screen(double x, double y) const {
    return cat("screen ", frac(x / width_), ", screen ", frac(y / height_));
  }

  // A data block; returns its name.
  std::string block(const std::string& rows) {
    const std::string name = cat("$d", blocks_++);
    data_ += cat(name, " << EOD\n", rows, "EOD\n");
    return name;
  }

  void label(const std::string& text, double x, double y, const char* align, const std::string& colour,
             bool bold = false, double size = 1) {
    body_ +=
        cat("set label ", quote_gnuplot(text), " at ", screen(x, y), " ", align, " front textcolor rgb '", colour, "'");
    if (bold || size != 1) body_ += cat(" font 'DejaVu Sans", bold ? ":Bold" : "", ",", num(em_ * size), "'");
    body_ += "\n";
  }

  void line(double x0, double y0, double x1, double y1, const std::string& colour, double width, const char* dash,
            const char* depth = "front") {
    body_ += cat("set arrow from ", screen(x0, y0), " to ", screen(x1, y1), " nohead ", depth, " lc rgb '", colour,
                 "' lw ", num(width * canvas_.line), " dt ", dash, "\n");
  }

  double x_at(const Frame& f, double value) const {
    return f.left + (f.right - f.left) * position_in(x_scale(), f.x.low, f.x.high, value);
  }
  double y_at(const Frame& f, double value) const {
    return f.bottom + (f.top - f.bottom) * position_in(y_scale(), f.y.low, f.y.high, value);
  }
  Scale x_scale() const { return figure_.kind == Figure::Kind::kHeatMap ? Scale::kLinear : figure_.x.scale; }
  Scale y_scale() const { return figure_.kind == Figure::Kind::kLines ? figure_.y.scale : Scale::kLinear; }

  void panel(std::size_t index) {
    const Panel& panel = figure_.panels[index];
    Frame f;
    const int row = static_cast<int>(index) / columns_, column = static_cast<int>(index) % columns_;
    f.cell_left = canvas_.panel_width * column;
    f.cell_right = f.cell_left + canvas_.panel_width;
    f.cell_top = height_ - canvas_.panel_height * row;
    f.cell_bottom = f.cell_top - canvas_.panel_height;
    body_ += "unset label\nunset arrow\nunset object\nunset logscale\nunset nonlinear y\nunset grid\n";
    ranges(panel, f);

    double tick_width = 0;
    if (figure_.y.hidden) f.y.ticks.clear();
    for (const Tick& tick : f.y.ticks) tick_width = std::max(tick_width, text_width(tick.label));
    f.left = f.cell_left + em_ * (std::min(tick_width, kLongestLabel) + 1.5);
    f.bottom = f.cell_bottom + em_ * (figure_.x.title.empty() ? 2.2 : 3.7);
    f.top = f.cell_top - em_ * (0.9 + (panel.title.empty() ? 0 : 1.7) + (figure_.y.title.empty() ? 0.2 : 1.7));
    if (has_rule_labels(panel) || has_shade_labels(panel)) f.top -= em_ * 1.3;

    std::vector<EndLabel> labels;
    if (figure_.kind == Figure::Kind::kLines) labels = end_labels(panel, f);
    double label_width = 0;
    if (!labels.empty()) label_width = label_room_;
    double right_margin = em_ * (labels.empty() ? 1.6 : label_width + 1.9);
    if (figure_.kind == Figure::Kind::kHeatMap) right_margin = em_ * 4.6;
    f.right = std::max(f.cell_right - right_margin, f.left + 0.3 * canvas_.panel_width);

    double text_y = f.cell_top - em_ * 1.2;
    if (!panel.title.empty()) {
      label(shortened(panel.title, canvas_.panel_width / em_ - 2), f.cell_left + em_ * 0.5, text_y, "left", "#222222",
            true);
      text_y -= em_ * 1.7;
    }
    if (!figure_.y.title.empty()) label(figure_.y.title, f.cell_left + em_ * 0.5, text_y, "left", "#555555");
    if (index == 0 && foot_ > 0) {
      const double size = std::min(0.85, width_ / em_ / (text_width(figure_.setting) + 1.5));
      label(figure_.setting, em_ * 0.5, em_ * 0.9, "left", "#777777", false, size);
    }

    frame_and_axes(panel, f);
    if (figure_.kind == Figure::Kind::kHeatMap) {
      heat_map(panel, f);
    } else if (is_forest()) {
      forest(panel, f);
    } else {
      lines(panel, f, labels);
    }
  }

  static bool has_rule_labels(const Panel& panel) {
    return std::any_of(panel.rules.begin(), panel.rules.end(),
                       [](const Rule& r) { return r.vertical && !r.label.empty(); });
  }

  static bool has_shade_labels(const Panel& panel) {
    return std::any_of(panel.shades.begin(), panel.shades.end(), [](const Shade& s) { return !s.label.empty(); });
  }
  bool is_forest() const { return figure_.kind == Figure::Kind::kForest || figure_.kind == Figure::Kind::kBars; }

  void ranges(const Panel& panel, Frame& f) const {
    const auto categories = [this](const std::vector<std::string>& names) {
      Range range{-0.5, std::max<double>(1, static_cast<double>(names.size())) - 0.5, {}};
      // A fine map has labels at some of its rows and columns.
      const std::size_t step = is_forest() || names.size() <= 16 ? 1 : (names.size() + 5) / 6;
      for (std::size_t i = 0; i < names.size(); i += step)
        range.ticks.push_back({static_cast<double>(i), shortened(names[i])});
      return range;
    };
    std::vector<double> xs, ys;
    for (const Panel& p : figure_.panels) {
      // Panels share their axes, so that eyes can compare, unless a panel is a zoom.
      if (&p != &panel && (panel.x_low || panel.y_low || p.x_low || p.y_low)) continue;
      for (const Series& series : p.series) {
        for (const Point& point : series.points) {
          xs.push_back(point.x);
          ys.push_back(point.y);
          if (is_forest()) xs.insert(xs.end(), {point.low, point.high});
          if (figure_.kind == Figure::Kind::kLines) ys.insert(ys.end(), {point.low, point.high});
        }
      }
      for (const Rule& rule : p.rules) (rule.vertical ? xs : ys).push_back(rule.at);
      for (const Shade& shade : p.shades) xs.insert(xs.end(), {shade.low, shade.high});
    }
    if (figure_.kind == Figure::Kind::kHeatMap) {
      f.x = categories(figure_.x_names);
      f.y = categories(figure_.y_names);
      return;
    }
    Axis x = figure_.x, y = figure_.y;
    if (panel.x_low) x.low = *panel.x_low;
    if (panel.x_high) x.high = *panel.x_high;
    if (panel.y_low) y.low = *panel.y_low;
    if (panel.y_high) y.high = *panel.y_high;
    f.x = range_of(x, xs);
    f.x.ticks = ticks_of(x, f.x.low, f.x.high, canvas_.panel_width / em_ < 34 ? 4 : 5);
    f.y = is_forest() ? categories(figure_.y_names) : range_of(y, ys);
  }

  void frame_and_axes(const Panel& panel, const Frame& f) {
    body_ += cat("set lmargin at screen ", frac(f.left / width_), "\nset rmargin at screen ", frac(f.right / width_),
                 "\nset bmargin at screen ", frac(f.bottom / height_), "\nset tmargin at screen ",
                 frac(f.top / height_), "\n");
    const double hair = 0.7 * canvas_.line;
    const bool heat = figure_.kind == Figure::Kind::kHeatMap;
    body_ += cat("set border ",
                 heat                              ? 0
                 : is_forest() || figure_.y.hidden ? 1
                                                   : 3,
                 " lw ", num(hair), " lc rgb '#777777'\n");
    const auto ticks = [](const std::vector<Tick>& list) {
      std::vector<std::string> texts;
      for (const Tick& tick : list) {
        std::string text = tick.label;  // gnuplot takes a label as a format
        for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 2))
          text.insert(at, "%");
        texts.push_back(cat(quote_gnuplot(text), " ", num(tick.at)));
      }
      return "(" + support::join(texts, ", ") + ")";
    };
    body_ += cat("set xrange [", num(f.x.low), ":", num(f.x.high), "] noextend\nset yrange [", num(f.y.low), ":",
                 num(f.y.high), "] noextend\n");
    body_ += cat("set xtics ", ticks(f.x.ticks), " textcolor rgb '#333333'", heat ? " scale 0" : "", " offset 0,",
                 num(tick_offset()), "\n");
    if (f.y.ticks.empty())
      body_ += "unset ytics\n";  // an empty list would be gnuplot's own choice
    else
      body_ +=
          cat("set ytics ", ticks(f.y.ticks), " textcolor rgb '#333333'", heat || is_forest() ? " scale 0" : "", "\n");
    if (x_scale() == Scale::kLog2) body_ += "set logscale x 2\n";
    if (x_scale() == Scale::kLog10) body_ += "set logscale x 10\n";
    if (y_scale() == Scale::kLog2) body_ += "set logscale y 2\n";
    if (y_scale() == Scale::kLog10) body_ += "set logscale y 10\n";
    if (y_scale() == Scale::kSigned)
      body_ += cat("set nonlinear y via asinh(y/", num(kSignedLinear), ") inverse ", num(kSignedLinear), "*sinh(y)\n");
    if (figure_.kind == Figure::Kind::kLines) {
      body_ += cat("set grid noxtics ytics back lt 1 lc rgb '#e6e6e6' lw ", num(hair), "\n");
    } else if (is_forest()) {
      body_ += cat("set grid xtics noytics back lt 1 lc rgb '#e6e6e6' lw ", num(hair), "\n");
    }
    if (!figure_.x.title.empty()) {
      label(shortened(figure_.x.title, canvas_.panel_width / em_ - 2), (f.left + f.right) / 2,
            f.cell_bottom + em_ * 1.0, "center", "#555555");
    }
    shades(panel, f);
    rules(panel, f);
  }

  /// The centre of a label that stays within its panel.
  double centre_within(const Frame& f, double wanted, double half) const {
    return std::clamp(wanted, f.cell_left + half + em_ * 0.3,
                      std::max(f.cell_left + half + em_ * 0.3, f.cell_right - half - em_ * 0.3));
  }

  void shades(const Panel& panel, const Frame& f) {
    for (const Shade& shade : panel.shades) {
      const double left = std::clamp(x_at(f, shade.low), f.left, f.right),
                   right = std::clamp(x_at(f, shade.high), f.left, f.right);
      body_ += cat("set object rectangle from ", screen(left, f.bottom), " to ", screen(right, f.top),
                   " behind fc rgb '#f0f0f0' fs solid 1 noborder\n");
      if (!shade.label.empty()) {
        const double half = text_width(shade.label) * em_ / 2, middle = (left + right) / 2;
        const bool fits = 2 * half < right - left;
        label(shade.label, fits ? middle : centre_within(f, middle, half),
              fits ? f.bottom + em_ * 0.8 : f.top + em_ * 1.0, "center", "#666666", false, 0.9);
      }
    }
  }

  void rules(const Panel& panel, const Frame& f) {
    for (const Rule& rule : panel.rules) {
      if (rule.vertical) {
        const double x = x_at(f, rule.at);
        const bool axis_of_zero = is_forest();
        line(x, f.bottom, x, f.top + (rule.label.empty() ? 0 : em_ * 0.4), axis_of_zero ? "#333333" : "#666666", 0.9,
             axis_of_zero ? "1" : "(4,4)", figure_.kind == Figure::Kind::kHeatMap ? "front" : "back");
        if (!rule.label.empty()) {
          // Centred over its line where there is room, else against the nearer end.
          label(rule.label, centre_within(f, x, text_width(rule.label) * em_ / 2), f.top + em_ * 1.0, "center",
                "#666666", false, 0.9);
        }
      } else {
        const double y = y_at(f, rule.at);
        line(f.left, y, f.right, y, "#666666", 0.9, "(2,3)", "back");
        if (!rule.label.empty()) label(rule.label, f.left + em_ * 0.4, y + em_ * 0.7, "left", "#666666", false, 0.9);
      }
    }
  }

  // Labels are right of the plot, at the height of their line's end, moved apart where they would touch.
  std::vector<EndLabel> end_labels(const Panel& panel, const Frame& f) const {
    std::vector<EndLabel> labels;
    std::map<std::string, std::size_t> known;
    for (const Series& series : panel.series) {
      const bool owner = series.role != Series::Role::kSeed && series.role != Series::Role::kRaw &&
                         series.role != Series::Role::kPoints;
      if (!owner || !series.labelled || series.name.empty()) continue;
      const ClippedLine clipped = clip_line(series.points, x_scale(), y_scale(), f.y.low, f.y.high);
      EndLabel label;
      label.text = shortened(series.name);
      label.colour = series.role == Series::Role::kContext ? "#777777" : series.look.colour;
      if (clipped.leaves_top) {
        label.wanted = y_at(f, f.y.high);
        label.from_x = clipped.exit_x;
        label.from_top = true;
        label.text += std::isfinite(clipped.last_y) ? cat(" ↑ ", support::short_count(clipped.last_y)) : " ↑ overflow";
      } else if (!clipped.pieces.empty()) {
        const Point& end = clipped.pieces.back().back();
        label.wanted = y_at(f, end.y);
        label.from_x = end.x;
      } else {
        continue;
      }
      if (!series.end_note.empty()) label.text += ", " + series.end_note;
      const double x_share = position_in(x_scale(), f.x.low, f.x.high, label.from_x);
      label.reaches_edge = x_share > 0.93;
      if (const auto found = known.find(series.name); found != known.end()) {
        // One label per name: the label of the line that reaches farthest.
        EndLabel& other = labels[found->second];
        if (label.from_x > other.from_x) other = label;
        continue;
      }
      known[series.name] = labels.size();
      labels.push_back(label);
    }
    // Labels of lines that leave the top are in the order of leaving, the first on top.
    std::vector<double> wanted;
    for (const EndLabel& label : labels) {
      wanted.push_back(label.wanted +
                       (label.from_top ? em_ * (1 - position_in(x_scale(), f.x.low, f.x.high, label.from_x)) : 0));
    }
    const double low = f.bottom - em_ * 0.2, high = f.top + em_ * 0.1;
    const double gap =
        labels.size() > 1 ? std::min(em_ * 1.25, (high - low) / static_cast<double>(labels.size() - 1)) : em_;
    const std::vector<double> placed = spread_labels(wanted, gap, low, high);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i].placed = placed[i];
    return labels;
  }

  bool visible(const Frame& f, double x) const {
    const double position = position_in(x_scale(), f.x.low, f.x.high, x);
    return position > -1e-9 && position < 1 + 1e-9;
  }

  std::vector<Point> visible_points(const Series& series, const Frame& f) const {
    std::vector<Point> points;
    for (const Point& p : series.points) {
      if (visible(f, p.x)) points.push_back(p);
    }
    // Grey lines are many, and thin ones.
    return thin(points, series.role == Series::Role::kContext ? 120 : 400);
  }

  void bands(const Panel& panel, const Frame& f) {
    const bool outlines = has_outlines(panel);
    for (const Series& series : panel.series) {
      if (!has_band(series)) continue;
      for (const auto& piece : clamp_band(visible_points(series, f), x_scale(), y_scale(), f.y.low, f.y.high)) {
        std::string rows;
        for (const Point& p : piece) rows += cat(num(p.x), " ", num(p.low), " ", num(p.high), "\n");
        const std::string data = block(rows);
        if (!outlines) {
          plots_.push_back(cat(data, " using 1:2:3 with filledcurves fs transparent solid 0.16 noborder lc rgb '",
                               series.look.colour, "'"));
          continue;
        }
        for (const char* columns : {"1:2", "1:3"})
          plots_.push_back(cat(data, " using ", columns, " with lines lc rgb '",
                               mixed_with_white(series.look.colour, 0.35), "' lw ", num(0.6 * canvas_.line),
                               " dt (2,2)"));
      }
    }
  }

  /// Markers of the points within the range; `size`: over the size on a main line.
  void markers(const std::vector<Point>& points, const Frame& f, const Look& look, double size,
               const std::string& colour) {
    std::string marks;
    for (const Point& p : points) {
      if (p.y >= f.y.low && p.y <= f.y.high) marks += cat(num(p.x), " ", num(p.y), "\n");
    }
    if (marks.empty()) return;
    plots_.push_back(cat(block(marks), " with points pt ", point_type(look), " ps ",
                         num(em_ / 11 * point_scale() * size), " lw ", num(canvas_.line), " lc rgb '", colour, "'"));
  }

  void strokes(const Series& series, const Frame& f, double width, const std::string& colour, bool with_markers) {
    const auto points = visible_points(series, f);
    const ClippedLine clipped = clip_line(points, x_scale(), y_scale(), f.y.low, f.y.high);
    std::string rows;
    for (const auto& piece : clipped.pieces) {
      if (!rows.empty()) rows += "\n";
      for (const Point& p : piece) rows += cat(num(p.x), " ", num(p.y), "\n");
    }
    if (rows.empty()) return;
    plots_.push_back(cat(block(rows), " with lines lc rgb '", colour, "' lw ", num(width * canvas_.line), " dt ",
                         dash_type(series.look.dash)));
    if (!with_markers) return;
    markers(points, f, series.look, 1, colour);
    if (clipped.leaves_top) {
      plots_.push_back(cat(block(cat(num(clipped.exit_x), " ", num(f.y.high), "\n")), " with points pt 9 ps ",
                           num(em_ / 11 * point_scale() * 1.4), " lc rgb '", colour, "'"));
    }
  }

  void whiskers(const Series& series, const Frame& f) {
    std::string rows;
    for (const Point& p : visible_points(series, f)) {
      if (std::isnan(p.low) || std::isnan(p.high)) continue;
      rows += cat(num(p.x), " ", num(std::clamp(p.low, f.y.low, f.y.high)), "\n", num(p.x), " ",
                  num(std::clamp(p.high, f.y.low, f.y.high)), "\n\n");
    }
    if (!rows.empty())
      plots_.push_back(
          cat(block(rows), " with lines lc rgb '", series.look.colour, "' lw ", num(0.9 * canvas_.line), " dt 1"));
  }

  /// Bands are lowest, then faint series, then the lines that are named.
  void lines(const Panel& panel, const Frame& f, const std::vector<EndLabel>& labels) {
    bands(panel, f);
    for (const Series& s : panel.series) {
      if (s.role != Series::Role::kContext) continue;
      const char* const grey = s.labelled ? "#b0b0b0" : "#d0d0d0";
      strokes(s, f, 1.0, grey, false);
      if (s.points.size() < 2) markers(visible_points(s, f), f, s.look, 0.6, grey);  // no line to see
    }
    for (const Series& s : panel.series) {
      const std::string pale = mixed_with_white(s.look.colour, s.role == Series::Role::kRaw ? 0.7 : 0.35);
      if (s.role == Series::Role::kRaw) strokes(s, f, 0.6, pale, false);
      if (s.role == Series::Role::kSeed) strokes(s, f, 0.8, pale, false);
      if (s.role == Series::Role::kPoints) markers(visible_points(s, f), f, s.look, 0.7, pale);
    }
    for (const Series& s : panel.series) {
      if (s.whiskers) whiskers(s, f);
      if (s.role == Series::Role::kMain) strokes(s, f, 1.8, s.look.colour, true);
      if (s.role == Series::Role::kLine) strokes(s, f, 1.6, s.look.colour, false);
    }
    for (const Flag& flag : panel.flags) {
      if (flag.y < f.y.low || flag.y > f.y.high || !visible(f, flag.x)) continue;
      plots_.push_back(cat(block(cat(num(flag.x), " ", num(flag.y), "\n")), " with points pt 2 ps ",
                           num(em_ / 11 * point_scale() * 1.1), " lw ", num(1.6 * canvas_.line), " lc rgb '",
                           flag.colour, "'"));
      if (!flag.text.empty())
        label(flag.text, x_at(f, flag.x), y_at(f, flag.y) + em_ * 1.1, "center", flag.colour, false, 0.9);
    }
    for (const EndLabel& l : labels) {
      const double text_x = f.right + em_ * 1.1;
      label(l.text, text_x, l.placed, "left", l.colour);
      // A line that ends early has no leader: across the plot it would look like data.
      const double edge = std::min(std::max(x_at(f, l.from_x), f.left), f.right);
      if (l.reaches_edge && !l.from_top)
        line(edge + em_ * 0.35, l.wanted, text_x - em_ * 0.25, l.placed, l.colour, 0.5, "1");
    }
    finish(f);
  }

  /// At the end of an interval that reaches beyond the axis.
  void arrow_head(double x, double y, int inwards, const std::string& colour) {
    for (const double side : {-1.0, 1.0}) line(x, y, x + inwards * em_ * 0.5, y + side * em_ * 0.35, colour, 1.6, "1");
  }

  void forest(const Panel& panel, const Frame& f) {
    for (const Flag& flag : panel.flags) {
      const bool right = flag.x > 0;  // a value off the axis is named at the end where it lies
      label(flag.text, right ? f.right - em_ * 0.2 : f.left + em_ * 0.6, y_at(f, flag.y), right ? "right" : "left",
            "#777777", false, 0.9);
    }
    for (const Series& s : panel.series) {
      std::string whiskers, marks, bars;
      for (const Point& p : s.points) {
        if (std::isnan(p.x)) continue;
        const double low = std::clamp(p.low, f.x.low, f.x.high), high = std::clamp(p.high, f.x.low, f.x.high);
        if (!std::isnan(p.low)) {
          whiskers += cat(num(low), " ", num(p.y), "\n", num(high), " ", num(p.y), "\n\n");
          if (p.low < f.x.low) arrow_head(f.left, y_at(f, p.y), 1, s.look.colour);
          if (p.high > f.x.high) arrow_head(f.right, y_at(f, p.y), -1, s.look.colour);
        }
        marks += cat(num(std::clamp(p.x, f.x.low, f.x.high)), " ", num(p.y), "\n");
        const double from = std::clamp(0.0, f.x.low, f.x.high), to = std::clamp(p.x, f.x.low, f.x.high);
        bars += cat(num((from + to) / 2), " ", num(p.y), " ", num(std::min(from, to)), " ", num(std::max(from, to)),
                    " ", num(p.y - 0.32), " ", num(p.y + 0.32), "\n");
      }
      if (figure_.kind == Figure::Kind::kBars && !bars.empty()) {
        plots_.push_back(cat(block(bars), " using 1:2:3:4:5:6 with boxxyerror fs solid 1 noborder lc rgb '",
                             mixed_with_white(s.look.colour, 0.55), "'"));
      }
      if (!whiskers.empty())
        plots_.push_back(
            cat(block(whiskers), " with lines lc rgb '", s.look.colour, "' lw ", num(1.6 * canvas_.line), " dt 1"));
      if (!marks.empty())
        plots_.push_back(cat(block(marks), " with points pt ", point_type(s.look), " ps ",
                             num(em_ / 11 * point_scale() * 1.2), " lc rgb '", s.look.colour, "'"));
    }
    finish(f);
  }

  void heat_map(const Panel& panel, const Frame& f) {
    std::string rows;
    const double cell_width = (f.right - f.left) / (f.x.high - f.x.low),
                 cell_height = (f.top - f.bottom) / (f.y.high - f.y.low);
    const bool annotated = figure_.x_names.size() <= 12 && figure_.y_names.size() <= 12;
    for (const HeatCell& cell : panel.cells) {
      const double x = cell.column, y = cell.row;
      const bool known = !std::isnan(cell.value);
      const Rgb colour = known ? ramp((cell.value - figure_.heat_low) / (figure_.heat_high - figure_.heat_low))
                               : Rgb{0xee, 0xee, 0xee};
      rows += cat(num(x), " ", num(y), " ", num(x - 0.48), " ", num(x + 0.48), " ", num(y - 0.47), " ", num(y + 0.47),
                  " ", colour.packed(), "\n");
      const bool fits = cell_width > em_ * (0.85 * text_width(cell.text) + 0.3) && cell_height > em_ * 1.0;
      if (annotated && fits && !cell.text.empty()) {
        label(cell.text, x_at(f, x), y_at(f, y), "center", colour.light() ? "#000000" : "#ffffff", false, 0.85);
      }
    }
    // A slim bar of the colours, from low to high.
    constexpr int kSteps = 48;
    const double bar_left = f.right + em_ * 0.8, bar_right = bar_left + em_ * 0.7;
    for (int i = 0; i < kSteps; ++i) {
      const double low = f.bottom + (f.top - f.bottom) * i / kSteps,
                   high = f.bottom + (f.top - f.bottom) * (i + 1) / kSteps;
      body_ += cat("set object rectangle from ", screen(bar_left, low), " to ", screen(bar_right, high),
                   " front fc rgb '", ramp((i + 0.5) / kSteps).hex(), "' fs solid 1 noborder\n");
    }
    if (!figure_.heat_title.empty())
      label(figure_.heat_title, f.cell_right - em_ * 0.3, f.top + em_ * 0.8, "right", "#555555", false, 0.9);
    const Axis bar{.title = {}, .ticks = figure_.heat_ticks, .low = figure_.heat_low, .high = figure_.heat_high};
    for (const Tick& tick : ticks_of(bar, figure_.heat_low, figure_.heat_high, 4)) {
      const double share = (tick.at - figure_.heat_low) / (figure_.heat_high - figure_.heat_low);
      label(tick.label, bar_right + em_ * 0.35, f.bottom + (f.top - f.bottom) * share, "left", "#333333", false, 0.9);
    }
    if (!rows.empty())
      plots_.push_back(cat(block(rows), " using 1:2:3:4:5:6:7 with boxxyerror lc rgb variable fs solid 1 noborder"));
    finish(f);
  }

  void finish(const Frame& f) {
    if (plots_.empty()) {
      // An empty panel still shows its axes: a constant below the range is drawn nowhere.
      body_ += cat("plot ", num(y_scale() == Scale::kLinear || y_scale() == Scale::kSigned ? f.y.low - 1 : f.y.low / 2),
                   " with lines\n");
    } else {
      body_ += "plot " + support::join(plots_, ", \\\n     ") + "\n";
    }
    plots_.clear();
  }

  // gnuplot leaves a line's height between axis and labels; half of it is enough.
  double tick_offset() const { return 0.45; }
  double point_scale() const { return canvas_.format == Canvas::Format::kSvg ? 0.62 : 0.5; }

  static std::string mixed_with_white(const std::string& colour, double white) {
    const auto part = [&](int at) {
      return static_cast<int>(std::lround(
          std::stoi(colour.substr(static_cast<std::size_t>(at), 2), nullptr, 16) * (1 - white) + 255 * white));
    };
    return Rgb{part(1), part(3), part(5)}.hex();
  }

  const Figure& figure_;
  const Canvas& canvas_;
  double em_;
  int columns_ = 1;
  int rows_ = 1;
  double width_ = 0;
  double height_ = 0;
  double foot_ = 0;  ///< room for the setting below all panels
  double label_room_ = 0;
  std::string data_;
  std::string body_;
  std::vector<std::string> plots_;  ///< of the panel that is drawn
  int blocks_ = 0;
};

[[noreturn]] void missing_program(const std::string& program, const std::string& package) {
  throw support::Error(kMissingProgram,
                       support::Diagnostic{cat("the program '", program, "' is not on the PATH: figures need it"),
                                           {},
                                           cat("install Debian's package ", package),
                                           {}});
}

std::string run_gnuplot(const std::string& script) {
  if (!support::find_program("gnuplot")) missing_program("gnuplot", "gnuplot-nox");
  // From `-` gnuplot reads a byte at a time, and to its standard output it writes line by line; files, even these, go
  // by blocks.
  const support::CapturedOutput run =
      support::capture({"gnuplot", "-d", "/dev/stdin"}, "set output '/dev/stdout'\n" + script);
  if (run.status.code != 0 || run.out.empty()) {
    throw support::Error(
        support::kExitBug,
        support::Diagnostic{cat("gnuplot refused a script of ours: ", support::trim(run.err)), {}, "", {}});
  }
  return run.out;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

void erase_between(std::string& text, std::string_view begin, std::string_view end) {
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    const std::size_t stop = text.find(end, at + begin.size());
    if (stop == std::string::npos) return;
    text.erase(at, stop + end.size() - at);
  }
}

// gnuplot's SVG with our own title, and without what would name gnuplot's version or clash on a page.
std::string tidy_svg(std::string svg, const std::string& title, const std::string& description,
                     const std::string& prefix) {
  erase_between(svg, "<title>Gnuplot</title>", "</desc>");
  erase_between(svg, "<title>gnuplot_plot_", "</title>");
  erase_between(svg, "<title>$d", "</title>");  // of data blocks: a tooltip on every line
  erase_between(svg, "<filter id='textbox'", "</filter>");
  erase_between(svg, "<filter id='greybox'", "</filter>");
  replace_all(svg, "id='gp", cat("id='", prefix, "gp"));
  replace_all(svg, "href='#gp", cat("href='#", prefix, "gp"));
  erase_between(svg, " id=\"gnuplot_", "\"");
  replace_all(svg, "font-family=\"DejaVu Sans:Bold\"", "font-weight=\"bold\" font-family=\"DejaVu Sans\"");
  replace_all(svg, "font-family=\"DejaVu Sans\"", "font-family=\"DejaVu Sans,Verdana,sans-serif\"");
  const std::size_t open = svg.find("<svg");
  const std::size_t close = svg.find('>', open);
  svg.insert(close + 1, cat("\n<title id=\"", prefix, "title\">", escape_html(title), "</title>\n<desc id=\"", prefix,
                            "desc\">", escape_html(description), "</desc>"));
  svg.insert(open + 4, cat(" role=\"img\" aria-labelledby=\"", prefix, "title ", prefix, "desc\""));
  return svg;
}

Canvas sized(const Figure& figure, Canvas canvas) {
  const double em = canvas.font_size;
  if (figure.kind == Figure::Kind::kHeatMap) {
    const double rows = static_cast<double>(figure.y_names.size());
    canvas.panel_height = std::clamp(em * (9 + 1.9 * rows), 0.5 * canvas.panel_width, 1.2 * canvas.panel_width);
  } else if (figure.kind == Figure::Kind::kForest || figure.kind == Figure::Kind::kBars) {
    canvas.panel_height = em * (8.5 + 1.7 * static_cast<double>(std::max<std::size_t>(1, figure.y_names.size())));
  } else {
    // Room for every label at a line's end.
    std::size_t labels = 0;
    for (const Panel& panel : figure.panels) {
      std::size_t own = 0;
      for (const Series& s : panel.series)
        own += s.labelled &&
               (s.role == Series::Role::kMain || s.role == Series::Role::kLine || s.role == Series::Role::kContext);
      labels = std::max(labels, own);
    }
    canvas.panel_height = std::max(canvas.panel_height, em * (9 + 1.3 * static_cast<double>(labels)));
  }
  return canvas;
}

/// The number behind the first `attribute`; 0 where there is none.
double number_of(const std::string& svg, std::string_view attribute) {
  const std::size_t at = svg.find(attribute);
  return at == std::string::npos ? 0 : std::strtod(svg.c_str() + at + attribute.size(), nullptr);
}

}  // namespace

Canvas svg_canvas(const Figure& figure) { return sized(figure, Canvas{}); }

Canvas pdf_canvas(const Figure& figure) {
  const int columns = std::max(1, std::min(figure.columns, static_cast<int>(figure.panels.size())));
  Canvas canvas;
  canvas.format = Canvas::Format::kPdf;
  canvas.font_size = columns > 2 ? 7 : 8;
  canvas.line = 1.0;
  canvas.panel_width = (columns > 1 ? 6.75 : 3.25) * 72 / columns;
  canvas.panel_height = 2.5 * 72;
  return sized(figure, canvas);
}

bool cuts_intervals(const Figure& figure) {
  if (figure.kind != Figure::Kind::kForest && figure.kind != Figure::Kind::kBars) return false;
  return std::any_of(figure.panels.begin(), figure.panels.end(), [&](const Panel& panel) {
    const double low = panel.x_low.value_or(figure.x.low), high = panel.x_high.value_or(figure.x.high);
    return std::any_of(panel.series.begin(), panel.series.end(), [&](const Series& series) {
      return std::any_of(series.points.begin(), series.points.end(),
                         [&](const Point& point) { return point.low < low || point.high > high; });
    });
  });
}

bool has_outlines(const Figure& figure) {
  return figure.kind == Figure::Kind::kLines && std::any_of(figure.panels.begin(), figure.panels.end(),
                                                            [](const Panel& panel) { return has_outlines(panel); });
}

std::string gnuplot_script(const Figure& figure, const Canvas& canvas) { return Script(figure, canvas).build(); }

namespace {

/// One panel as a separate figure, on the axes that all panels share.
Figure panel_alone(const Figure& figure, std::size_t panel) {
  Figure one = figure;
  const Panel& chosen = figure.panels.at(panel);
  if (figure.kind != Figure::Kind::kHeatMap && !chosen.x_low && !chosen.y_low) {
    std::vector<double> xs, ys;
    for (const Panel& p : figure.panels) {
      if (p.x_low || p.y_low) continue;
      for (const Series& series : p.series) {
        for (const Point& point : series.points) {
          xs.push_back(point.x);
          ys.push_back(point.y);
          auto& across = figure.kind == Figure::Kind::kLines || figure.kind == Figure::Kind::kHeatMap ? ys : xs;
          across.insert(across.end(), {point.low, point.high});
        }
      }
      for (const Rule& rule : p.rules) (rule.vertical ? xs : ys).push_back(rule.at);
      for (const Shade& shade : p.shades) xs.insert(xs.end(), {shade.low, shade.high});
    }
    const Range x = range_of(figure.x, xs);
    one.x.low = x.low;
    one.x.high = x.high;
    if (figure.kind == Figure::Kind::kLines) {
      const Range y = range_of(figure.y, ys);
      one.y.low = y.low;
      one.y.high = y.high;
    }
  }
  one.panels = {chosen};
  one.setting.clear();  // the page prints it above all panels
  return one;
}

std::string tidy_whole(std::string svg, const Figure& figure) {
  return compact_svg(tidy_svg(std::move(svg), figure.title, figure.description, ""));
}

std::string tidy_panel(std::string svg, const Figure& figure, std::size_t panel, const std::string& prefix) {
  const std::string& title = figure.panels.at(panel).title;
  svg = tidy_svg(std::move(svg), title.empty() ? figure.title : cat(figure.title, ": ", title), figure.description,
                 prefix);
  return compact_svg(svg.substr(svg.find("<svg")));
}

std::string without_date(std::string pdf) {
  // Same length, so that the file's table of offsets stays right.
  constexpr std::string_view kDate = "/CreationDate (D:";
  for (std::size_t at = pdf.find(kDate); at != std::string::npos; at = pdf.find(kDate, at + 1)) {
    std::size_t digit = at + kDate.size();
    for (const char c : std::string_view("20000101000000")) {
      if (digit < pdf.size() && pdf[digit] >= '0' && pdf[digit] <= '9') pdf[digit++] = c;
    }
  }
  return pdf;
}

}  // namespace

Pictures render(const Figure& figure, std::size_t panels, const std::string& prefix) {
  // One program draws all of them: starting it takes longer than a picture.
  std::string script = gnuplot_script(figure, svg_canvas(figure));
  for (std::size_t i = 0; i < panels; ++i)
    script += cat("reset\n", gnuplot_script(panel_alone(figure, i), svg_canvas(figure)));
  script += cat("reset\n", gnuplot_script(figure, pdf_canvas(figure)));
  const std::string drawn = run_gnuplot(script);
  std::size_t at = 0;
  const auto next_svg = [&] {
    constexpr std::string_view kEnd = "</svg>\n";  // never of a label: there < is &lt;
    const std::size_t begin = drawn.find("<?xml", at), end = drawn.find(kEnd, at);
    if (begin == std::string::npos || end == std::string::npos)
      throw support::Error(support::kExitBug,
                           support::Diagnostic{"gnuplot drew fewer pictures than it was asked for", {}, "", {}});
    at = end + kEnd.size();
    return drawn.substr(begin, at - begin);
  };
  Pictures pictures{.svg = tidy_whole(next_svg(), figure), .pdf = {}, .panels = {}};
  for (std::size_t i = 0; i < panels; ++i)
    pictures.panels.push_back(tidy_panel(next_svg(), figure, i, cat(prefix, "-", i, "-")));
  const std::size_t pdf = drawn.find("%PDF-", at);
  if (pdf == std::string::npos)
    throw support::Error(support::kExitBug, support::Diagnostic{"gnuplot drew no PDF", {}, "", {}});
  pictures.pdf = without_date(drawn.substr(pdf));
  return pictures;
}

std::string render_svg(const Figure& figure) {
  return tidy_whole(run_gnuplot(gnuplot_script(figure, svg_canvas(figure))), figure);
}

std::string render_png(const std::string& svg) {
  if (!support::find_program("rsvg-convert")) missing_program("rsvg-convert", "librsvg2-bin");
  // Two pixels a point; fewer where a figure of very many panels would be larger than programs read.
  constexpr double kZoom = 2, kLongest = 16000;
  const double side = std::max(number_of(svg, "width=\""), number_of(svg, "height=\""));
  const double zoom = side > 0 ? std::min(kZoom, kLongest / side) : kZoom;
  const support::CapturedOutput run =
      support::capture({"rsvg-convert", "--format=png", cat("--zoom=", support::shortest(zoom))}, svg);
  if (run.status.code != 0 || run.out.empty()) {
    throw support::Error(
        support::kExitBug,
        support::Diagnostic{cat("rsvg-convert refused a figure: ", support::trim(run.err)), {}, "", {}});
  }
  return run.out;
}

void require_plot_programs() {
  if (!support::find_program("gnuplot")) missing_program("gnuplot", "gnuplot-nox");
  if (!support::find_program("rsvg-convert")) missing_program("rsvg-convert", "librsvg2-bin");
}

}  // namespace pe::report
