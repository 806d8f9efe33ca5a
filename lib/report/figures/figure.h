/// @file
/// A figure before it is drawn: axes, panels, series of typed points, and the texts in them. Two back ends draw it:
/// gnuplot for files and the static page, Chart.js for interactive charts on demand. All decisions (ticks, places of
/// labels, points that leave the plot) are made here, so that both agree and no label covers another.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "report/figures/palette.h"
#include "support/json.h"

namespace pe::report {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// kSigned has both signs: linear up to ±kSignedLinear, logarithmic beyond.
enum class Scale { kLinear, kLog2, kLog10, kSigned };
inline constexpr double kSignedLinear = 0.01;
enum class TickStyle { kPlain, kCount, kPercent };  ///< 0.5 · 512, 1k, 2M · a share as "50 %"

struct Axis {
  std::string title;
  Scale scale = Scale::kLinear;
  TickStyle ticks = TickStyle::kPlain;
  double low = kUnknown;  ///< absent: from the data
  double high = kUnknown;
  bool hidden = false;  ///< places along it mean nothing: no ticks
};

struct Point {
  double x = 0;
  double y = 0;           ///< infinite: beyond any range; NaN: a gap
  double low = kUnknown;  ///< of the band or whisker
  double high = kUnknown;
  double n = kUnknown;  ///< documents, trials or seeds behind the point
};

struct Series {
  enum class Role {
    kMain,     ///< labelled line with markers; its band is drawn where bounds are finite
    kLine,     ///< labelled line without markers
    kSeed,     ///< one seed of it: thin
    kRaw,      ///< values before smoothing: faint
    kContext,  ///< others, in grey; labelled where their names are drawn
    kPoints,   ///< markers without a line: single seeds of a measure that is often all or nothing
  };
  std::string name;  ///< label at the line's end, once per name
  std::string seed;  ///< of a seed's line
  Role role = Role::kMain;
  Look look;
  std::vector<Point> points;            ///< by x
  std::string end_note;                 ///< why the line ends early: "n/a beyond 128"
  bool labelled = true;                 ///< has a label at its end
  bool whiskers = false;                ///< bounds as whiskers and not as a band
  std::string variant;                  ///< of its models, for a page that chooses among them
  std::map<std::string, double> units;  ///< the size of one x in each of the figure's units
};

struct Rule {  ///< a straight line across a panel
  bool vertical = true;
  double at = 0;
  std::string label;
};

struct Shade {  ///< a range of x, such as the lengths of training
  double low = 0;
  double high = 0;
  std::string label;
};

/// A marked point: "encoding dropped". In a forest: words in place of a row's value, at the right end for an x above 0.
struct Flag {
  double x = 0;
  double y = 0;
  std::string text;
  std::string colour;
};

/// A cell of a heat map: column and row count from 0 at the lower left.
struct HeatCell {
  int column = 0;
  int row = 0;
  double value = 0;  ///< NaN: not measured
  std::string text;
};

struct Panel {
  std::string title;
  std::vector<Series> series;
  std::vector<Rule> rules;
  std::vector<Flag> flags;
  std::vector<Shade> shades;
  std::vector<HeatCell> cells;
  std::optional<double> x_low, x_high, y_low, y_high;  ///< a zoom; else the figure's axes
  std::string encoding, variant;                       ///< of the panel, where it shows only one
};

/// Another unit of the x axis, which a reader may choose.
struct Unit {
  std::string id;  ///< in CSV and report.json: "steps"
  Axis axis;
};

struct Figure {
  enum class Kind { kLines, kHeatMap, kForest, kBars };  ///< bars: as a forest, from 0
  std::string id;                                        ///< file name without its ending
  std::string title;
  std::string setting;  ///< size, steps, seeds and text, drawn below the panels
  std::string caption;
  std::string description;  ///< what someone who cannot see it should know
  Kind kind = Kind::kLines;
  Axis x;
  Axis y;
  std::vector<Panel> panels;
  std::size_t lead = 0;  ///< the panel of the figure's sentences, by which names are chosen
  int columns = 2;       ///< panels side by side
  /// Of heat maps (both axes) and forest plots (y): names of the places 0, 1, 2, …
  std::vector<std::string> x_names, y_names;
  double heat_low = 0, heat_high = 1;
  std::string heat_title;  ///< the unit, over the bar of colours
  TickStyle heat_ticks = TickStyle::kPlain;
  std::vector<Unit> x_units;  ///< other units of x, with factors in the series
};

/// More names than labels at line ends can carry.
inline constexpr std::size_t kNamesInColour = 8;
/// The names of a panel's or a figure's labelled lines, in order.
std::vector<std::string> names_of(const Panel& panel);
std::vector<std::string> names_of(const Figure& figure);
/// The `most` names that are best at the ends of the leading panel's lines (the axis's title says which way is better),
/// `first` first.
std::vector<std::string> leading_names(const Figure& figure, const std::string& first,
                                       std::size_t most = kNamesInColour);
/// The same figure with all other names in grey, and named in grey, but in panels of at most `few` names.
Figure with_others_in_grey(Figure figure, const std::vector<std::string>& names, std::size_t few = 0);
/// A panel for each name out of the leading panel, the others in grey.
Figure small_multiples(const Figure& figure);

/// The figure's data, a row per point or cell of a map: panel, series, seed, role, x, y, low, high, n, value (of a
/// cell), then x in the other units.
std::string figure_csv(const Figure& figure);
/// The same for the page and report.json, at most `points` a series (a third in grey), of the first `panels`.
Json figure_json(const Figure& figure, std::size_t points = 2000, std::size_t panels = SIZE_MAX);

/// A range, with its ticks. `low < high` always.
struct Tick {
  double at = 0;
  std::string label;
};
struct Range {
  double low = 0;
  double high = 1;
  std::vector<Tick> ticks;
};

/// The range of an axis: stated bounds, else the data's with a little air, and its ticks. A single value, or none,
/// still gives a range.
Range range_of(const Axis& axis, const std::vector<double>& values);
std::vector<Tick> ticks_of(const Axis& axis, double low, double high, int about);
/// The place of `value` between low (0) and high (1), on the axis's scale.
double position_in(Scale scale, double low, double high, double value);

/// Moves labels apart: places nearest to `wanted` (least squares) that keep `gap` between neighbours, inside [low,
/// high] if they fit there. Order is kept; equal wishes keep the order given.
std::vector<double> spread_labels(const std::vector<double>& wanted, double gap, double low, double high);

/// Thins to about `limit` points: first, last, and the extremes of y of each stretch.
std::vector<Point> thin(const std::vector<Point>& points, std::size_t limit);

/// Clips a line to [low, high] in y, cutting segments where they, drawn straight on both scales, cross. Gaps split it.
struct ClippedLine {
  std::vector<std::vector<Point>> pieces;
  bool leaves_top = false;
  double exit_x = 0;  ///< where it first leaves for good
  double last_y = 0;  ///< its last value, which may be infinite
};
ClippedLine clip_line(const std::vector<Point>& points, Scale x_scale, Scale y_scale, double low, double high);

/// A band clamped to [low, high], each segment resampled on both scales, so that no back end clips areas.
std::vector<std::vector<Point>> clamp_band(const std::vector<Point>& points, Scale x_scale, Scale y_scale, double low,
                                           double high, int samples = 24);

/// About how wide `text` is in DejaVu Sans, in units of the font size.
double text_width(std::string_view text);

}  // namespace pe::report
