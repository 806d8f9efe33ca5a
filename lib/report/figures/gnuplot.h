/// @file
/// Pictures of figures, by gnuplot through a pipe (no shell, no file but the picture). A figure gives the same bytes
/// each time: data travels in the script with fixed precision, creation dates are stripped, layouts are computed here.
#pragma once

#include <string>
#include <vector>

#include "report/figures/figure.h"

namespace pe::report {

/// The format and size of a picture. Lengths are in the terminal's unit: px for SVG, pt for PDF.
struct Canvas {
  enum class Format { kSvg, kPdf };
  Format format = Format::kSvg;
  double panel_width = 440;
  double panel_height = 300;
  double font_size = 11;
  double line = 1;  ///< gnuplot line width of one hair line of the design
  int columns = 0;  ///< panels side by side; 0: as the figure says
};

Canvas svg_canvas(const Figure& figure);
/// 3.25 in wide for one column of panels, 6.75 in for more.
Canvas pdf_canvas(const Figure& figure);

/// From so many bands in a panel on, bands are drawn as outlines.
inline constexpr int kBandsAsOutlines = 4;
bool has_outlines(const Figure& figure);
/// Whether an interval of a forest reaches beyond the axis, where it ends in an arrow head.
bool cuts_intervals(const Figure& figure);

/// The script, complete; everything that depends on the reader's taste is decided in it.
std::string gnuplot_script(const Figure& figure, const Canvas& canvas);

/// A figure as files and as parts of a page.
struct Pictures {
  std::string svg, pdf;  ///< whole; the SVG has its own title and description
  std::vector<std::string>
      panels;  ///< SVG elements: no XML header, ids that begin with the prefix and the panel's number
};
/// @param panels number of first panels also drawn alone, on the axes that all share
/// @throws Error naming Debian's package when gnuplot is missing; Error (bug) with gnuplot's words when it refuses.
Pictures render(const Figure& figure, std::size_t panels, const std::string& prefix);
/// The SVG alone.
std::string render_svg(const Figure& figure);
/// PNG of an SVG document, by rsvg-convert, so that both look alike.
std::string render_png(const std::string& svg);

/// The names of programs that pictures need and that are not on the PATH, with their Debian packages: to ask early.
void require_plot_programs();

}  // namespace pe::report
